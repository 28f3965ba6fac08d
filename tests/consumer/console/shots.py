"""`python -m tests.consumer.console.shots`: the pictures of the documentation, in docs/static.

Real pages of a real console, over requests, dead letters and doubts that are planted, and letters
of another system with hostile texts; beside a worker, over an empty group, and without Redis.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from kafka.admin import KafkaAdminClient, NewTopic
from selenium.webdriver.common.by import By

from consumer.journal.schema import migrate
from feedback.records.envelope import Record
from feedback.settings.settings import Settings, load
from onceward.servers.ports import HOST, free_port
from producer_client import Client
from tests.bench.console.planting import Planted, plant
from tests.bench.launching import running
from tests.bench.systems import onceward
from tests.consumer.console.conftest import console_of
from tests.consumer.console.others import letter_of, showing
from tests.consumer.console.people import with_people
from tests.consumer.console.test_in_browser import OnCall, on_call, use_scheme
from tests.consumer.console.test_pages import HOSTILE, judged, with_audit
from tests.consumer.dlq.letters import write
from tests.eventually import eventually
from tests.stack import Servers, Stack
from tests.stack.postgres import fresh_database

FOLDER = Path(__file__).parents[3] / "docs" / "static" / "console"
GROUP, QUIET = "shop", "quiet"
TOPICS = ("payments", "refunds", "seats", "mails", "coupons")
WORKED_ON = "payments"
OTHERS, HOSTILES = "orders-dlt", "mails-dlt"
MESSAGE = "Listener failed; amount is missing"
LETTERS_OF_OTHERS = 12
WORKED_OFF, WORKS_WITHIN_S = 200, 60.0
WIDTH, HEIGHT = 1000, 640


class Scene(NamedTuple):
    """Servers with a planted group."""

    servers: Servers
    url: str
    folder: Path
    settings: Settings
    planted: Planted


def main() -> None:
    """Take all of them."""
    FOLDER.mkdir(exist_ok=True)
    with _scene() as scene, ExitStack() as opened:
        settings = with_people(scene.settings, scene.folder)
        address = _console(opened, showing(settings, OTHERS, HOSTILES))
        olga = _person(opened, address, "olga")
        doubt = scene.planted.request_id(scene.planted.rows)
        for name, path in {
            "now": "/",
            "doubt": f"/request?id={doubt}#resolve",
            "letters": "/letters?reason=BANK",
            "redrive-preview": "/choose/redrive?reason=BANK",
            "requests": "/requests?topic=refunds&state=FAILED",
            "request": f"/request?id={scene.planted.failed(0)}&letters=yes",
        }.items():
            _take(olga, name, path)
        use_scheme(olga.browser, "dark")
        _take(olga, "now-dark", "/")
        use_scheme(olga.browser, "light")
        _edit(_person(opened, address, "petra"), scene.planted.failed(0))
        _of_others(olga)
        _beside_a_worker(opened, scene)
        _in_trouble(opened, scene)
        quiet = settings.model_copy(
            update={"kafka": settings.kafka.model_copy(update={"group": QUIET})}
        )
        _take(_person(opened, _console(opened, quiet), "olga"), "letters-empty", "/letters")


def _edit(person: OnCall, letter: str) -> None:
    """Take the picture of a value that is edited."""
    person.opens(f"/request?id={letter}")
    person.clicks_on("Edit its value")
    person.reads("See what would be sent")
    value = person.browser.find_element(By.NAME, "value")
    text = str(value.get_attribute("value"))
    value.clear()
    value.send_keys(text.replace("5", "7"))
    person.clicks_on("See what would be sent")
    person.reads("What changes")
    _save(person, "value-edit")


def _of_others(olga: OnCall) -> None:
    """Take the pictures of letters of another system, of their redrives, and of the actions."""
    _take(olga, "letters-of-others", f"/letters?dlq={OTHERS}")
    _take(olga, "letters-hostile", f"/letters?dlq={HOSTILES}")
    preview = f"/choose/redrive?dlq={OTHERS}&unknown=yes"
    olga.opens(preview)
    olga.reads("nothing says whether")
    olga.browser.find_element(By.CSS_SELECTOR, "input[name=unknown][required]").click()
    olga.types("because", "the shop's listener is mended")
    olga.clicks_on("Send back")
    olga.reads(f"{LETTERS_OF_OTHERS} of {LETTERS_OF_OTHERS} chosen", "done")
    _save(olga, "redrive")
    _take(olga, "again-preview", f"{preview}&again=yes")
    _take(olga, "actions", "/actions")


def _in_trouble(opened: ExitStack, scene: Scene) -> None:
    """Take the picture of the first page while Redis is away."""
    away = load(
        None,
        kafka={"bootstrap_servers": scene.servers.kafka, "group": GROUP},
        redis={"url": f"redis://{HOST}:{free_port()}/0"},
        journal={"url": scene.url},
    )
    address = _console(opened, with_people(away, scene.folder))
    _take(_person(opened, address, "olga"), "now-away", "/")


def _beside_a_worker(opened: ExitStack, scene: Scene) -> None:
    """Take the pictures of a worker, its topics, and the days of the audit."""
    audit = scene.folder / "audit"
    today = datetime.now(UTC).date()
    for ago in range(1, 20):
        bad = {"ran_twice": 2} if ago == 6 else {}
        day = today - timedelta(days=ago)
        judged(audit, day.isoformat(), "bad" if bad else "good", **bad)
    environ = {
        **onceward.environment(
            scene.servers, scene.url, topic=WORKED_ON, handlers=onceward.HANDLERS
        ),
        "ONCEWARD_KAFKA__GROUP": GROUP,
        # Else it counts no lag.
        "ONCEWARD_WORKER__HTTP_PORT": str(free_port()),
    }
    log = scene.folder / "worker.log"
    opened.enter_context(running(onceward.WORKER, environ=environ, log=log))
    settings = with_audit(with_people(scene.settings, scene.folder), audit)
    olga = _person(opened, _console(opened, settings), "olga")
    with Client(settings) as client:
        for number in range(WORKED_OFF):
            client.send(b"{}", key=b"card-%d" % number, topic=WORKED_ON).wait(WORKS_WITHIN_S)
    _await(olga, "/workers", r"\blives\b")
    # Nothing left to read, nothing claimed, and the pace.
    _await(olga, "/topics", r"\b0\s+0\s+[\d.]+\s+[\d.]+ ms")
    for name in ("workers", "topics", "audit"):
        _take(olga, name, f"/{name}")


def _await(person: OnCall, path: str, pattern: str) -> None:
    def is_said() -> bool:
        person.opens(path)
        return re.search(pattern, person.sees) is not None

    eventually(is_said, timeout_s=WORKS_WITHIN_S, what=pattern)


def _take(person: OnCall, name: str, path: str) -> None:
    person.opens(path)
    while "are being read" in person.sees:
        person.opens(path)
    _save(person, name)


def _save(person: OnCall, name: str) -> None:
    person.browser.save_screenshot(str(FOLDER / f"{name}.png"))


def _person(opened: ExitStack, address: str, name: str) -> OnCall:
    one = opened.enter_context(on_call(address, name))
    size = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    one.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    return one


def _console(opened: ExitStack, settings: Settings) -> str:
    console = opened.enter_context(console_of(settings))
    return str(console.base_url).rstrip("/")


@contextmanager
def _scene() -> Iterator[Scene]:
    with ExitStack() as opened:
        servers = opened.enter_context(Stack.start(environ={}))
        url = opened.enter_context(fresh_database(servers.postgres, "shots"))
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))
        migrate(url)
        settings = load(
            None,
            kafka={"bootstrap_servers": servers.kafka, "group": GROUP},
            redis={"url": servers.redis},
            journal={"url": url},
        )
        planted = Planted(GROUP, rows=2000, letters=40, topics=TOPICS)
        plant(url, servers.kafka, planted)
        _plant_others(servers.kafka)
        yield Scene(servers, url, folder, settings, planted)


def _plant_others(kafka: str) -> None:
    with KafkaAdminClient(bootstrap_servers=kafka) as admin:
        admin.create_topics([NewTopic(name, 1, 1) for name in (OTHERS, HOSTILES)])
        admin.wait_for_topics([OTHERS, HOSTILES])
    for name, said, topic in ((OTHERS, MESSAGE, "refunds"), (HOSTILES, HOSTILE, HOSTILE)):
        letters = [letter_of("spring", topic, n, said=said) for n in range(LETTERS_OF_OTHERS)]
        write(kafka, name, [_earlier(*one) for one in enumerate(letters)])


def _earlier(number: int, letter: Record) -> Record:
    """Return a letter of some minutes before, so that there are several bars."""
    return letter._replace(timestamp_ms=letter.timestamp_ms - 17_000 * number**2)


if __name__ == "__main__":
    main()
