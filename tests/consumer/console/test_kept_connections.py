"""What the console keeps of its connections to PostgreSQL: for its looks, never for an act."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from sqlalchemy import NullPool, create_engine, text

from consumer.console import app as app_module
from consumer.console.redrives import BackgroundRedrives
from consumer.dlq.filter import LetterFilter
from consumer.dlq.redrive.redrive_plan import RedrivePlan
from consumer.dlq.redrive.redrive_session import RedriveEnding
from consumer.journal.redrive.redrive_work import RedriveWork
from consumer.journal.searching import JournalSearch
from feedback.settings.settings import Settings, load
from feedback.sql import keeping
from feedback.sql.keeping import KEPT
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import lines, logged_in
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.kit.moving_name import moving_name
from tests.kit.settings import write_settings
from tests.stack import Servers
from tests.stack.postgres import Postgres, fresh_database
from tests.stack.restartable import restartable

# Shorter than a test, so that several ticks pass.
TICK_S = 0.05
_OURS = """
    SELECT pid, query_start FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'onceward'
"""


@pytest.fixture
def settings(
    no_given_servers: None, servers: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """Return settings of a console with people, whose journal is a new database on PostgreSQL."""
    monkeypatch.setattr(app_module, "IDLE_S", TICK_S)
    users = tmp_path / "users"
    users.write_text(lines())
    with fresh_database(servers.postgres, f"kept_{uuid.uuid4().hex}") as url:
        migrated(url)
        sections = {
            "kafka": {"bootstrap_servers": servers.kafka, "group": f"group-{uuid.uuid4().hex}"},
            "redis": {"url": servers.redis},
            "journal": {"url": url},
            "console": {"users_file": str(users)},
        }
        yield load(write_settings(tmp_path, sections))


def ours(settings: Settings) -> dict[int, datetime]:
    """Return the processes of the server that answer us, and when each was asked last."""
    engine = create_engine(settings.journal.url, poolclass=NullPool)
    with engine.connect() as connection:
        return {int(pid): at for pid, at in connection.execute(text(_OURS))}


def look(console: httpx.Client) -> None:
    """Look at a page that asks the journal alone, once."""
    assert console.get("/actions").status_code == 200


def test_looks_share_a_connection_which_is_closed_when_nobody_looks(
    settings: Settings, opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with logged_in(opened(settings), "vera") as (vera,):
        look(vera.http)
        [(first, asked)] = ours(settings).items()
        look(vera.http)
        [(second, asked_again)] = ours(settings).items()
        assert second == first and asked_again > asked
        monkeypatch.setattr(keeping, "IDLE_S", 0.0)
        eventually(lambda: not ours(settings))


def test_a_fault_while_connections_are_closed_is_logged_and_later_ones_are_closed(
    settings: Settings,
    opened: Open,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    close_idle: Callable[[], None] = KEPT.close_idle
    faults = [ZeroDivisionError("a planted fault")]

    def faulty() -> None:
        if faults:
            raise faults.pop()
        close_idle()

    monkeypatch.setattr(KEPT, "close_idle", faulty)
    monkeypatch.setattr(keeping, "IDLE_S", 0.0)
    with caplog.at_level(logging.ERROR), logged_in(opened(settings), "vera") as (vera,):
        eventually(lambda: not faults)
        look(vera.http)
        eventually(lambda: not ours(settings))
    assert "idle.failed" in caplog.text


@pytest.mark.parametrize(
    ("act", "fields"),
    [
        ("resume_topic", {"topic": "t", "since": "1"}),
        ("cancel_redrive", {"redrive_id": uuid.uuid4().hex, "because": "x", "process": ""}),
    ],
)
def test_an_act_asks_no_connection_that_a_look_has_left_and_leaves_none_for_the_next_look(
    settings: Settings,
    opened: Open,
    people: ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    act: str,
    fields: dict[str, str],
) -> None:
    (olga,) = people.enter_context(logged_in(opened(settings), "olga"))
    look(olga.http)
    left = ours(settings)
    assert left
    close_all, seen = KEPT.close_all, [left]

    def seen_before() -> None:
        seen.append(ours(settings))
        close_all()

    monkeypatch.setattr(KEPT, "close_all", seen_before)
    # The journal has said that there is no such thing.
    assert olga.send(f"/act/{act}", **fields).status_code == 409
    assert seen[1].items() >= left.items()
    look(olga.http)
    eventually(lambda: not ours(settings).keys() & left.keys())


def test_after_the_name_has_moved_a_redrive_of_the_new_server_is_seen_and_so_is_what_was_done(
    settings: Settings, opened: Open
) -> None:
    place = urlsplit(settings.journal.url)
    with ExitStack() as stack:
        second = stack.enter_context(restartable(Postgres)).address
        copy = stack.enter_context(fresh_database(second, place.path.lstrip("/")))
        migrated(copy)
        plan = RedrivePlan(LetterFilter(ids=frozenset(["a"]))).to_json()
        with closing(RedriveWork(copy, group=settings.kafka.group, owner="gone")) as work:
            work.begin("the-new-one", by="zoe", reason="x", filter_text=plan, spans={})
        line = stack.enter_context(moving_name(place.port or 0))
        url = settings.journal.url.replace(f":{place.port}/", f":{line.port}/")
        journal = settings.journal.model_copy(update={"url": url})
        console = opened(settings.model_copy(update={"journal": journal}))
        (olga,) = stack.enter_context(logged_in(console, "olga"))
        page = "/redrives/the-new-one"
        assert olga.http.get(page).status_code == 404
        line.move(urlsplit(copy).port or 0)
        assert olga.http.get(page).status_code == 200
        # A list may be that of the former server for a while, but not after an act.
        fields = {"redrive_id": "the-new-one", "because": "x", "process": "gone"}
        assert olga.send("/act/cancel_redrive", **fields).status_code == 303
        assert "the-new-one" in olga.http.get("/redrives").text


def test_a_redrive_in_its_thread_asks_no_connection_that_a_look_has_left(
    settings: Settings,
) -> None:
    def work(how: Any) -> RedriveEnding:
        with closing(JournalSearch.from_settings(settings)) as search:
            search.actions(most=1)
        raise ZeroDivisionError

    with KEPT.keeping():
        with closing(JournalSearch.from_settings(settings)) as search:
            search.actions(most=1)
        left = ours(settings)
        assert left
        with pytest.raises(ZeroDivisionError):
            BackgroundRedrives().start(work, rate=None)
        assert ours(settings).items() >= left.items()
