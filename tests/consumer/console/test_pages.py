"""The pages over what a real worker has left, and while servers are away."""

import html
import json
import re
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import NullPool, create_engine, insert

from consumer.console import owed, pages
from consumer.console.app import app
from consumer.console.pages import ConsolePages
from consumer.journal import Journal, JournalUnavailable, Work
from consumer.journal.pauses import Pauses
from consumer.ops import outbox_counts
from consumer.ops.workers.workers import SeenHeartbeat, WorkerLoad, WorkerRow, WorkerState
from consumer.ops.workers.workers_reading import WorkersFound
from feedback.console.printable import printable
from feedback.settings.settings import OutboxSection, Settings, load
from onceward.servers.ports import HOST, free_port
from producer_client.outbox import migrate
from producer_client.outbox.tables import row
from tests.consumer.console.conftest import Open, console_of
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.consumer.journal.samples import claim, finish, new_id
from tests.consumer.ops.test_outbox_counts import row_of as outbox_row
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.producer_client.http.conftest import AppServer

PAGES = ("", "workers", "requests", "doubts", "letters", "topics", "actions", "audit")
OUR_SCRIPT = re.compile('<script src="/(console|brush)[.]js" defer></script>')
# A worker that stands still for some seconds is none that has lost its lease or its heartbeat.
STEADY: dict[str, Any] = {"redis": {"heartbeat_ttl_s": 20}, "journal": {"lease_s": 20}}
TIMED = re.compile(r'<td class="number">[0-9.]+ m?s</td>')
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e' onload=x"


def text_of(answer: httpx.Response) -> str:
    """Return a page's text; no script but ours is in it, and nothing controls a terminal."""
    assert answer.headers["content-type"].startswith("text/html")
    foreign = OUR_SCRIPT.sub("", answer.text).replace("&#39; onload=x", "")
    assert "<script" not in foreign and "onload=x" not in foreign
    bad = [one for one in answer.text if not (one.isprintable() or one == "\n")]
    assert not bad, ascii(bad)
    return html.unescape(answer.text)


def judged(folder: Path, day: str, verdict: str, **findings: int) -> None:
    """Write a day of the audit."""
    report = folder / "reports" / f"date={day}"
    report.mkdir(parents=True)
    counts = {"requests": 3, "findings": findings}
    summary = {"verdict": verdict, "counts": counts, "unseen": []}
    (report / "summary.json").write_text(json.dumps(summary))
    (report / "report.html").write_text("<title>the day</title>")


def test_an_empty_group_has_pages_that_say_so(make_box: MakeBox, opened: Open) -> None:
    stage = make_box("work", **STEADY).stage
    worker = stage.start()
    console = opened(load(stage.config()))
    # A look in which a server answers late says so: it is no verdict.
    eventually(lambda: "All is well" in text_of(console.get("/")), what="that all is well")
    pages = {name: console.get(f"/{name}") for name in PAGES}
    assert {one.status_code for one in pages.values()} == {200}
    said = {name: text_of(one) for name, one in pages.items()}
    assert "lives" in said["workers"]
    assert "No doubt is open" in said["doubts"] and "No dead letter" in said["letters"]
    assert "Nobody has acted" in said["actions"] and "no audit" in said["audit"]
    assert "No request" in said["requests"]
    for one in pages.values():
        assert one.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in one.headers["content-security-policy"]
    assert console.get("/console.css").headers["content-type"].startswith("text/css")
    assert worker.stop() == 0
    eventually(lambda: "no worker is alive" in text_of(console.get("/")), what="a worker's end")


def test_what_needs_a_person_is_named_and_each_request_has_its_page(
    make_box: MakeBox, opened: Open, tmp_path: Path
) -> None:
    box = make_box("work", "failing", **STEADY)
    stage = box.stage
    stage.start()
    failed = stage.client.send({"n": 1}, topic=stage.topics["failing"], key=HOSTILE).request_id
    doubtful = stage.client.send({"do": "doubt"}, topic=stage.topics["work"]).request_id
    good = stage.client.send({"answer": 1}, topic=stage.topics["work"]).request_id
    box.closed([failed])
    stage.final(doubtful)
    stage.final(good)
    judged(tmp_path / "audit", _today(), "bad", ran_twice=2)
    settings = with_audit(load(stage.config()), tmp_path / "audit")
    with closing(Pauses.from_settings(settings)) as pauses:
        pauses.pause(stage.topics["work"], reason=HOSTILE, by="ann@host")
    console = opened(settings)

    # A look in which a server answers late has fewer.
    eventually(lambda: "4 things to look at" in text_of(console.get("/")), what="all of them")
    now = text_of(console.get("/"))
    assert "1 doubt waits for a decision" in now and "1 dead letter needs a decision" in now
    assert f"the audit of {_today()} is bad" in now and "is paused by ann@host" in now

    letters = text_of(console.get("/letters"))
    assert failed in letters and "HANDLER_ERROR" in letters and "BankDown" in letters
    assert failed in text_of(console.get("/letters", params={"reason": "HANDLER_ERROR"}))
    none = text_of(console.get("/letters", params={"reason": HOSTILE}))
    assert failed not in none and "0 dead letters" in none
    doubts = text_of(console.get("/doubts"))
    assert f"onceward-dlq resolve --failed --run 1 --because '' {doubtful}" in doubts
    assert "BankDown" in text_of(console.get(f"/request?id={failed}"))
    page = text_of(console.get(f"/request?id={failed}&letters=yes"))
    assert "Dead letter of" in page and f"onceward-dlq redrive {failed}" in page
    assert '"n"' not in page  # the value
    assert "SUCCEEDED" in text_of(console.get(f"/request?id={good}"))
    assert "2 ran twice" in text_of(console.get("/audit"))
    report = console.get(f"/audit/{_today()}")
    assert "the day" in report.text
    assert report.headers["content-security-policy"].startswith("sandbox")
    # With the next heartbeat.
    eventually(lambda: TIMED.search(text_of(console.get("/"))), what="its pace")
    topics = text_of(console.get("/topics"))
    assert TIMED.search(topics) and "a person ends doubts" in topics
    assert stage.topics["work"] in text_of(console.get("/topics"))
    for path in ("/nowhere", "/request?id=none-such", "/audit/../../etc", "/request?id=%0a"):
        assert console.get(path).status_code == 404, path

    for query, found in (
        ({"id": good[:20]}, {good} | {one for one in (failed, doubtful) if one[:20] == good[:20]}),
        ({"state": "IN_DOUBT"}, {doubtful}),
        ({"key": HOSTILE}, {failed}),
        ({"topic": stage.topics["work"]}, {doubtful, good}),
        ({"since": "1h"}, {failed, doubtful, good}),
        ({"until": "1h"}, set()),
        ({"code": HOSTILE, "id": HOSTILE}, set()),
    ):
        said = text_of(console.get("/requests", params=query))
        assert {one for one in (failed, doubtful, good) if one in said} == found, query
    assert "write 15m, 2h or 7d" in text_of(console.get("/requests", params={"since": "soon"}))


@pytest.mark.parametrize("away", ["kafka", "redis", "journal"])
def test_a_server_that_is_away_is_named_and_the_rest_is_shown(
    make_box: MakeBox, opened: Open, away: str
) -> None:
    port = free_port()
    refusing = f"{HOST}:{port}"
    stage = make_box("work", **STEADY).stage
    worker = stage.start()
    done = stage.client.send({"answer": 1}, topic=stage.topics["work"]).request_id
    stage.final(done)
    settings = load(stage.config())
    urls: dict[str, Any] = {
        "kafka": {"bootstrap_servers": refusing},
        "redis": {"url": f"redis://{refusing}/0"},
        "journal": {"url": f"postgresql+psycopg://me@{refusing}/none"},
    }
    section = getattr(settings, away).model_copy(update=urls[away])
    console = opened(settings.model_copy(update={away: section}))
    eventually(lambda: str(port) in text_of(console.get("/")), timeout_s=60)
    now = console.get("/")
    assert now.status_code == 200 and "Not all is known" in text_of(now)
    page = console.get(f"/request?id={done}")
    if away == "journal":
        assert page.status_code == 503 and str(port) in text_of(page)
    else:
        assert page.status_code == 200 and "SUCCEEDED" in text_of(page)
    assert worker.stop() == 0


def test_a_topic_shows_what_is_claimed_and_what_waits_for_its_next_run(
    make_box: MakeBox, opened: Open
) -> None:
    settings = load(make_box("work").stage.config())
    runs, waits = new_id(), new_id()
    with closing(Journal(settings.journal.url, group=settings.kafka.group, worker_id="me")) as one:
        one.apply(Work(claims=[claim(runs), claim(waits)]))
        one.apply(Work(finishes=[finish(waits, state="RETRYING", code="BUSY", delay_ms=3_600_000)]))
    console = opened(settings)
    page = console.get("/topics")
    retrying = r'<td class="number">1</td>\s*<td><a href="([^"]+)">1</a>, the next is due at 20'
    (where,) = re.findall(retrying, page.text)
    found = text_of(console.get(html.unescape(where)))
    assert waits in found and runs not in found


def test_the_rows_of_an_outbox_stand_beside_their_topics_or_are_not_known(
    make_box: MakeBox, opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(make_box("work").stage.config())
    said = text_of(opened(settings).get("/topics"))
    assert "is not known here: [outbox] url is empty" in said and "outbox list" not in said

    url = f"sqlite:///{tmp_path}/shop.db"
    away = with_outbox(settings, f"sqlite:///{tmp_path}/gone.db")
    migrated(url, migrate)
    rows = [
        outbox_row(1, group=settings.kafka.group, topic=HOSTILE),
        outbox_row(2, group=settings.kafka.group, topic=HOSTILE, state="PARKED", ended_at=1),
    ]
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(insert(row), rows)
    page = text_of(opened(with_outbox(settings, url)).get("/topics"))
    assert "1 waits, the oldest since 1 h" in page and "1 parked" in page
    assert printable(HOSTILE) in page and "onceward-client outbox list" in page
    # Since when those wait that were left out, nobody knows.
    monkeypatch.setattr(outbox_counts, "MOST_ROWS", 1)
    with_more = with_audit(with_outbox(settings, url), tmp_path, topics=("pay",))
    page = text_of(opened(with_more).get("/topics"))
    assert "at least 1 waits" in page and "at least 1 parked" in page
    assert "the oldest since" not in page and ">not counted<" in page
    away = with_audit(away, tmp_path, topics=("pay",))
    said = text_of(opened(away).get("/topics"))
    assert "cannot be read ([outbox] url)" in said and ">not known here<" in said
    assert not (tmp_path / "gone.db").exists()


def test_a_dead_letter_that_kafka_does_not_take_is_no_all_clear(
    make_box: MakeBox, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owed, "LATE_MS", 0)
    box = make_box("failing")
    box.make("failing", limit_bytes=1)
    box.stage.start()
    failed = box.stage.client.send({"n": 1}, topic=box.stage.topics["failing"]).request_id
    box.stage.final(failed)
    console = opened(load(box.stage.config()))
    eventually(lambda: "waits for the dead letter since" in text_of(console.get("/")))
    assert "All is well" not in text_of(console.get("/"))


def test_a_topic_that_a_worker_has_paused_is_not_called_unpaused(
    make_box: MakeBox, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = load(make_box("work").stage.config())
    heartbeat = SeenHeartbeat(WorkerLoad(paused={"pay": "guard"}), 0.1)
    paused = WorkerRow("w-1", "h", WorkerState.LIVES, 0, lease_left_s=3.0, heartbeat=heartbeat)
    monkeypatch.setattr(pages, "workers_of", lambda _: WorkersFound([paused], None, is_cut=False))
    said = text_of(opened(settings).get("/topics"))
    assert "by w-1: its counterparty does not answer" in said
    unread = replace(paused, heartbeat=SeenHeartbeat(WorkerLoad(), 0.1, is_read=False))
    monkeypatch.setattr(pages, "workers_of", lambda _: WorkersFound([unread], None, is_cut=False))
    console = opened(with_audit(settings, Path("nowhere"), topics=("pay",)))
    assert re.search(r"<td>\s*\?</td>", console.get("/topics").text)
    for page in ("", "workers", "topics"):
        assert "the content of its heartbeat cannot be read" in text_of(console.get(f"/{page}"))

    def is_away(self: ConsolePages) -> None:
        raise JournalUnavailable("it is away")

    monkeypatch.setattr(ConsolePages, "_pauses", is_away)
    monkeypatch.setattr(
        pages, "workers_of", lambda _: WorkersFound([replace(paused, heartbeat=None)], None, False)
    )
    settings = with_audit(settings, Path("nowhere"), topics=("pay",))
    assert re.search(r"<td>\s*\?</td>", opened(settings).get("/topics").text)


def test_an_audit_folder_that_is_not_there_is_no_lack_of_audits(
    make_box: MakeBox, opened: Open, tmp_path: Path
) -> None:
    settings = load(make_box("work").stage.config())
    assert "no audit was made" not in text_of(opened(settings).get("/"))
    console = opened(with_audit(settings, tmp_path / "gone", topics=("pay",)))
    assert "the audit is not known" in text_of(console.get("/"))
    assert console.get("/audit").status_code == 503


def test_each_command_names_the_file_of_its_settings(make_box: MakeBox, tmp_path: Path) -> None:
    settings, file = load(make_box("work").stage.config()), str(tmp_path / "my settings.toml")
    server = AppServer(app(settings, file=file), lifespan="on")
    try:
        for page in ("workers", "doubts", "letters", "topics", "redrives", "audit"):
            said = text_of(server.http.get(f"/{page}"))
            assert f"--config '{file}'" in said, page
        assert "environment" not in said
    finally:
        server.close()
    with console_of(settings) as console:
        said = text_of(console.get("/workers"))
    assert "with the environment of this console" in said and "--config" not in said


def test_a_page_of_another_site_is_refused(make_box: MakeBox, opened: Open) -> None:
    console = opened(load(make_box("work").stage.config()))
    assert console.get("/", headers={"host": "evil.example"}).status_code == 400
    assert console.post("/").status_code == 405


def _today() -> str:
    return str(datetime.now(UTC).date())


def with_outbox(settings: Settings, url: str) -> Settings:
    return settings.model_copy(update={"outbox": OutboxSection(url=url)})


def with_audit(settings: Settings, folder: Path, **section: Any) -> Settings:
    audit = settings.audit.model_copy(update={"output": str(folder), **section})
    return settings.model_copy(update={"audit": audit})
