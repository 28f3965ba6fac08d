"""Pages that stay up to date: what their streams send, and when they end."""

from __future__ import annotations

import asyncio
import json
import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from selenium.webdriver.common.by import By
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from consumer.console import live, pages
from consumer.journal.pauses import Pauses
from consumer.ops.workers.workers_reading import WorkersFound, workers_of
from feedback.settings.settings import Settings, load
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import Browser, logged_in, with_people
from tests.consumer.console.test_pages import HOSTILE, text_of
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually
from tests.kit.chromium import chromium
from tests.producer_client.http.conftest import AppServer

EVENTS = {"Accept": "text/event-stream"}
LIMIT_S = 10.0


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "EVERY_S", 0.05)


@pytest.fixture
def settings(make_box: MakeBox) -> Settings:
    """Return those of a group without workers."""
    return load(make_box("work").stage.config())


@contextmanager
def following(browser: httpx.Client, page: str) -> Iterator[Iterator[tuple[str, str]]]:
    """Yield the events of a page: name and text of each."""
    with browser.stream("GET", page, headers=EVENTS) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = (one for one in answer.iter_lines() if one)
        yield (
            (name.removeprefix("event: "), json.loads(data.removeprefix("data:") or '""'))
            for name, data in zip(lines, lines, strict=False)
        )


def test_the_page_is_sent_as_it_reads_now_and_nothing_else_of_it(
    settings: Settings, opened: Open
) -> None:
    console = opened(settings)
    page = console.get("/workers")
    assert '<script src="/console.js"' in page.text and "script-src 'self'" in str(page.headers)
    assert console.get("/console.js").headers["content-type"].startswith("text/javascript")
    with following(console, "/workers") as events:
        name, content = next(events)
    assert name == "content" and content.startswith("<main") and "<html" not in content
    assert content.partition("<footer>")[0].strip() in page.text
    with following(console, "/") as events:
        assert "is paused by" not in next(events)[1]
        with closing(Pauses.from_settings(settings)) as pauses:
            pauses.pause(settings.kafka.group, reason="a test", by=HOSTILE)
        after = next(text for _, text in events if "is paused by" in text)
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in after and "<script" not in after
    assert "<script" not in text_of(console.get("/audit"))


def test_a_stream_waits_for_the_moment_of_all(
    settings: Settings, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[float] = []

    def until_next_s(now_s: float) -> float:
        asked.append(now_s)
        return 0.01

    monkeypatch.setattr(live, "_until_next_s", until_next_s)
    with following(opened(settings), "/workers") as events:
        for _ in range(3):
            next(events)
    assert len(asked) >= 3


def test_open_pages_share_a_reading_and_a_person_who_opens_one_sees_a_new_one(
    settings: Settings, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "EVERY_S", 1.0)
    read: list[Settings] = []

    def noted(given: Settings) -> WorkersFound:
        read.append(given)
        return workers_of(given)

    monkeypatch.setattr(pages, "workers_of", noted)
    console = opened(settings)
    with ExitStack() as streams:
        browsers = [
            streams.enter_context(httpx.Client(base_url=console.base_url, timeout=console.timeout))
            for _ in range(4)
        ]
        followed = [streams.enter_context(following(one, "/workers")) for one in browsers]
        # All look from the second moment on at the latest.
        for events in followed:
            assert next(events)[0] == "content"
        before = len(read)
        for events in followed:
            next(events)
        assert len(read) - before <= 2
        before = len(read)
        for _ in range(3):
            console.get("/workers")
        assert len(read) - before >= 3


def test_streams_that_wait_for_a_slow_server_hold_up_no_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[float] = []
    may_end = threading.Event()

    def until_next_s(now_s: float) -> float:
        asked.append(now_s)
        return 0.0 if len(asked) <= live.MOST_STREAMS else 3600.0

    def look() -> str:
        may_end.wait()
        return "seen"

    monkeypatch.setattr(live, "_until_next_s", until_next_s)
    streams = live.LiveStreams(asyncio.Event())
    routes = [
        Route("/live", lambda request: streams.of(look)),
        Route("/page", lambda request: PlainTextResponse("here")),
    ]
    with ExitStack() as stack:
        stack.callback(streams.close)
        server = AppServer(Starlette(routes=routes))
        stack.callback(server.close)
        stack.callback(may_end.set)
        for _ in range(live.MOST_STREAMS):
            opening = server.http.stream("GET", "/live", headers=EVENTS, timeout=LIMIT_S)
            assert stack.enter_context(opening).status_code == 200
        eventually(lambda: len(asked) == live.MOST_STREAMS)
        assert server.http.get("/page", timeout=LIMIT_S).text == "here"


def test_of_streams_that_are_asked_for_at_once_no_more_begin_than_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 2)
    monkeypatch.setattr(live, "_until_next_s", lambda now_s: 0.05)
    streams, together = live.LiveStreams(asyncio.Event()), threading.Barrier(6)

    def asked(request: Request) -> Response:
        answer = streams.of(lambda: "seen")
        together.wait(LIMIT_S)
        return answer

    def first_event(_: int) -> str:
        with server.http.stream("GET", "/live", headers=EVENTS, timeout=LIMIT_S) as answer:
            said = next(answer.iter_lines())
            everybody.wait(LIMIT_S)
            return said

    everybody = threading.Barrier(6)
    with ExitStack() as stack:
        stack.callback(streams.close)
        server = AppServer(Starlette(routes=[Route("/live", asked)]))
        stack.callback(server.close)
        threads = stack.enter_context(ThreadPoolExecutor(6))
        begun = Counter(threads.map(first_event, range(6)))
    assert begun == {"event: content": 2, "event: full": 4}


def test_one_person_takes_no_place_of_others(
    opened: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_OF_ONE", 2)
    console = opened(with_people(load(), tmp_path))
    with logged_in(console, "vera", "vera", "vera", "olga") as browsers, ExitStack() as streams:

        def first_event(of: Browser) -> tuple[str, str]:
            return next(streams.enter_context(following(of.http, "/workers")))

        *begun, (refused, said), others = [first_event(one) for one in browsers]
        assert (refused, said) == ("full", "2 pages of vera are open, or were just left")
        # No server is there to be asked.
        assert [name for name, _ in (*begun, others)] == ["fault"] * 3
        # One that is left makes room for her again.
        streams.close()
        eventually(lambda: _is_taken(browsers[0].http), timeout_s=30, what="room for another one")


@pytest.mark.parametrize("page", ["/letters", "/topics", "/workers?go-on=yes"])
def test_what_a_person_confirms_stays_as_it_was_seen(
    settings: Settings, opened: Open, page: str
) -> None:
    console = opened(settings)
    answer = console.get(page, headers=EVENTS)
    assert answer.headers["content-type"].startswith("text/html") and "<html" in answer.text
    assert "<script" not in answer.text


def test_a_head_is_no_stream(settings: Settings, opened: Open) -> None:
    console = opened(settings)
    assert console.head("/workers", headers=EVENTS).headers["content-type"].startswith("text/html")


def test_who_logs_out_sees_no_more(settings: Settings, opened: Open, tmp_path: Path) -> None:
    console = opened(with_people(settings, tmp_path))
    assert console.get("/workers", headers=EVENTS).status_code == 303
    with logged_in(console, "vera") as (vera,), following(vera.http, "/workers") as events:
        assert next(events)[0] == "content"
        assert vera.send("/logout").status_code == 303
        assert [name for name, _ in events if name != "content"] == ["over"]


def test_while_the_journal_is_away_the_page_says_so_and_goes_on_after_it(
    settings: Settings, opened: Open
) -> None:
    journal = Path(settings.journal.url.removeprefix("sqlite:///"))
    away = journal.with_name("away.db")
    console = opened(settings)
    with following(console, "/workers") as events:
        assert next(events)[0] == "content"
        journal.rename(away)
        said = next(text for name, text in events if name == "fault")
        journal.unlink(missing_ok=True)
        away.rename(journal)
        assert next(name for name, _ in events if name != "fault") == "content"
    assert "the journal" in said


def test_so_many_are_open_at_once_and_one_that_is_left_makes_room(
    settings: Settings, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "MOST_STREAMS", 1)
    console = opened(settings)
    with (
        httpx.Client(base_url=console.base_url, timeout=console.timeout) as first,
        following(first, "/workers") as events,
    ):
        next(events)
        refused = console.get("/workers", headers=EVENTS)
        assert refused.text.startswith("event: full") and "as many as may be" in refused.text
    eventually(lambda: _is_taken(console), timeout_s=30, what="room for another one")


def _is_taken(browser: httpx.Client) -> bool:
    with following(browser, "/workers") as events:
        return next(events)[0] != "full"


@pytest.mark.timeout(400)
def test_a_browser_shows_it_until_it_is_held_still_and_says_when_it_hears_nothing(
    settings: Settings, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = opened(settings)

    def pause(name: str) -> None:
        with closing(Pauses.from_settings(settings)) as pauses:
            pauses.pause(f"{name}-{settings.kafka.group}", reason=HOSTILE, by=name)

    with chromium() as browser:
        browser.get(str(console.base_url))

        def sees(name: str) -> bool:
            return f"by {name}" in browser.find_element(By.TAG_NAME, "body").text

        pause("ann")
        eventually(lambda: sees("ann"), timeout_s=60, what="the pause")
        hold = browser.find_element(By.ID, "hold")
        hold.click()
        assert hold.get_attribute("aria-pressed") == "true"
        pause("bob")
        with following(console, "/") as events:
            next(text for _, text in events if "by bob" in text)
        assert not sees("bob")
        hold.click()
        eventually(lambda: sees("bob"), timeout_s=60, what="the pause that came meanwhile")
        assert browser.find_elements(By.TAG_NAME, "script")[1:] == []
        monkeypatch.setattr(live, "EVERY_S", 25.0)
        told = browser.find_element(By.ID, "live-said")
        eventually(lambda: "said nothing" in told.text, timeout_s=60, what="a word about silence")
        said = browser.get_log("browser")  # type: ignore[no-untyped-call]
    assert [one["message"] for one in said if one["source"] == "security"] == []
