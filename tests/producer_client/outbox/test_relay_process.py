"""`onceward-client relay` as it is run: signals, SIGKILL, its pages, systemd, wrong databases."""

import json
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from sqlalchemy import Engine, create_engine, func, select
from sqlalchemy.pool import NullPool

from feedback.records.envelope import Record, decode_headers
from feedback.settings.settings import Settings
from onceward.servers.ports import HOST, free_port
from producer_client import Client
from producer_client.outbox.tables import RowState, row
from tests import preloaded
from tests.eventually import eventually
from tests.paused import paused
from tests.producer_client.programs import Run
from tests.producer_client.resenders import ClientProgram
from tests.service_manager import NotifySocket

pytestmark = pytest.mark.waits

Records = Callable[[], list[Record]]
COUNT = 1500
KILLS = 3
BATCH = 50
FLYING = 2
LIMIT_S = 90.0


@pytest.fixture
def relays(environment: dict[str, str], outbox_url: str) -> dict[str, str]:
    """Return the environment of relays: small batches and short leases."""
    return environment | {
        "ONCEWARD_OUTBOX__URL": outbox_url,
        "ONCEWARD_OUTBOX__LEASE_S": "1",
        "ONCEWARD_OUTBOX__BATCH_LIMIT": str(BATCH),
        "ONCEWARD_OUTBOX__POLL_S": "0.2",
    }


@contextmanager
def relay(
    environment: Mapping[str, str], folder: Path, name: str = "relay"
) -> Iterator[ClientProgram]:
    """Yield a relay that has started, and is gone after the block."""
    one = ClientProgram(environment, folder, name, argv=("relay",))
    try:
        one.told("relay.started")
        yield one
    finally:
        one.kill()


def _write(client: Client, engine: Engine, count: int) -> None:
    with engine.begin() as connection:
        for number in range(count):
            client.send(
                b"%d" % number,
                key=b"%d" % (number % 50),
                request_id=f"r{number:05}",
                connection=connection,
            )


def _of_group(group: str, settings: Settings) -> Settings:
    kafka = settings.kafka.model_copy(update={"group": group})
    return settings.model_copy(update={"kafka": kafka})


def _sent(engine: Engine) -> int:
    # Counted there: reading all rows again and again keeps the relays from the processor.
    with engine.connect() as connection:
        found = select(func.count()).select_from(row).where(row.c.state == RowState.SENT)
        return connection.execute(found).scalar_one()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_relays_that_are_killed_lose_nothing_and_repeat_only_what_was_in_flight(
    client: Client,
    engine: Engine,
    records: Records,
    relays: dict[str, str],
    tmp_path: Path,
) -> None:
    _write(client, engine, COUNT)
    chance = random.Random(COUNT)
    for number in range(KILLS):
        with relay(relays, tmp_path, f"killed-{number}"):
            share = (number + 1) * COUNT // (KILLS + 2)
            eventually(lambda: _sent(engine) > share, timeout_s=LIMIT_S, interval_s=0.005)  # noqa: B023
            time.sleep(chance.random() / 50)  # a moment that nobody chose
    with relay(relays, tmp_path, "last"):
        eventually(lambda: _sent(engine) == COUNT, timeout_s=LIMIT_S)
    found = [decode_headers(one) for one in records()]
    times = Counter(one.request_id for one in found)
    assert len(times) == COUNT
    assert {one.attempt for one in found} == {1}
    assert sum(times.values()) - COUNT <= KILLS * FLYING * BATCH
    _keys_are_in_order(records())


def _keys_are_in_order(found: list[Record]) -> None:
    """The first record of each request stands behind those of all earlier ones of its key."""
    seen: set[bytes] = set()
    last: dict[bytes | None, int] = {}
    for one in found:
        value = one.value or b""
        if value not in seen:
            seen.add(value)
            assert last.get(one.key, -1) < int(value)
            last[one.key] = int(value)


@pytest.mark.timeout(300)
# On SQLite, one that stands still may have the one write lock: then nobody writes.
@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_two_share_the_work_one_stands_still_and_the_other_goes_on(
    client: Client,
    engine: Engine,
    records: Records,
    relays: dict[str, str],
    tmp_path: Path,
) -> None:
    with relay(relays, tmp_path, "a") as one, relay(relays, tmp_path, "b") as other:
        _write(client, engine, COUNT)
        eventually(lambda: _sent(engine) > 200, timeout_s=LIMIT_S, interval_s=0.005)
        with paused(one.pid):
            eventually(lambda: _sent(engine) == COUNT, timeout_s=LIMIT_S)
        for each, number in ((one, signal.SIGTERM), (other, signal.SIGINT)):
            each.send(number)
            assert each.wait() == 0
            assert len(each.events("relay.stopped")) == 1
    assert len({decode_headers(one).request_id for one in records()}) == COUNT
    _keys_are_in_order(records())


def test_it_says_how_it_does_to_prometheus_and_to_systemd(
    client: Client, engine: Engine, relays: dict[str, str], tmp_path: Path
) -> None:
    at = f"http://{HOST}:{(port := free_port())}"
    with NotifySocket(watchdog_s=1) as manager:
        told = relays | manager.variables | {"ONCEWARD_OUTBOX__HTTP_PORT": str(port)}
        with relay(told, tmp_path) as one:
            manager.wait_for("READY=1")
            _write(client, engine, 5)
            with engine.begin() as connection:
                client.send(b"v", topic="no-such-topic", connection=connection)
                with Client(_of_group("elsewhere", client.settings)) as stranger:
                    stranger.send(b"v", connection=connection)

            def metrics() -> dict[str, float]:
                text = requests.get(f"{at}/metrics", timeout=10).text
                lines = [line.rsplit(" ", 1) for line in text.splitlines() if line[0] != "#"]
                return {name: float(value) for name, value in lines}

            eventually(lambda: metrics()["onceward_outbox_sent_total"] == 5, timeout_s=LIMIT_S)
            eventually(lambda: metrics()["onceward_outbox_waiting"] == 1, timeout_s=LIMIT_S)
            assert metrics()["onceward_outbox_oldest_seconds"] > 0
            assert metrics()["onceward_outbox_parked_rows"] == 0
            assert requests.get(f"{at}/live", timeout=10).status_code == 200
            ready = requests.get(f"{at}/ready", timeout=10)
            assert ready.status_code == 503
            assert "no-such-topic" in json.loads(ready.text)["missing"]
            manager.wait_for("WATCHDOG=1")
            eventually(lambda: one.events("group.has_no_relay"), timeout_s=LIMIT_S)
            (unserved,) = one.events("group.has_no_relay")
            assert unserved["group"] == "elsewhere"
            one.send(signal.SIGTERM)
            manager.wait_for("STOPPING=1")
            assert one.wait() == 0


def test_a_relay_without_an_outbox_says_what_to_do_and_ends(
    environment: dict[str, str], sqlite_url: str
) -> None:
    def ends(code: int, said: str, **changes: str) -> None:
        command = (sys.executable, "-m", "producer_client", "relay")
        done = preloaded.run(command, environ=environment | changes, timeout_s=60)
        assert (done.returncode, done.stdout) == (code, "")
        assert said in done.stderr

    ends(2, "[outbox] url is empty")
    ends(3, "outbox migrate", ONCEWARD_OUTBOX__URL=sqlite_url)
    ends(3, "not available", ONCEWARD_OUTBOX__URL="postgresql+psycopg://me@127.0.0.1:1/none")


def test_a_person_makes_the_tables_and_sees_what_is_there(
    call: Run, sqlite_url: str, client: Client
) -> None:
    there = {"ONCEWARD_OUTBOX__URL": sqlite_url}
    done = call("outbox", "migrate", **there)
    assert (done.code, done.stdout) == (0, "found no outbox; the outbox has version 2\n")
    assert "found version 2" in call("outbox", "migrate", **there).stdout
    with create_engine(sqlite_url, poolclass=NullPool).begin() as connection:
        client.send(b"secret", key="secret", request_id="a\x7e", connection=connection)
    assert call("outbox", "list", **there).stdout == ""
    shown = call("outbox", "list", "--waiting", "--json", **there).stdout
    assert "secret" not in shown
    assert json.loads(shown)["request_id"] == "a~"
    assert call("outbox", "list", "--waiting", **there).stdout.startswith("a~  WAITING  topic-")
    assert call("outbox", "retry", **there).code == 2
    assert call("outbox", "retry", "a~", **there).code == 1
    assert call("outbox", "retry", "--all", **there).code == 0
    assert call("outbox", "list").code == 2
