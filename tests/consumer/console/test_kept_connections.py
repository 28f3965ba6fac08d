"""What the console keeps of its connections to PostgreSQL: for its looks, never for an act."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import NullPool, create_engine, text

from consumer.console import app as app_module
from consumer.console.redrives import BackgroundRedrives
from consumer.dlq.redrive.redrive_session import RedriveEnding
from consumer.journal.searching import JournalSearch
from feedback.settings.settings import Settings, load
from feedback.sql import keeping
from feedback.sql.keeping import KEPT
from tests.consumer.console.conftest import Open
from tests.consumer.console.people import lines, logged_in
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.kit.settings import write_settings
from tests.stack import Servers
from tests.stack.postgres import fresh_database

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
def test_an_act_asks_no_connection_that_a_look_has_left(
    settings: Settings, opened: Open, people: ExitStack, act: str, fields: dict[str, str]
) -> None:
    (olga,) = people.enter_context(logged_in(opened(settings), "olga"))
    look(olga.http)
    left = ours(settings)
    assert left
    # The journal has said that there is no such thing.
    assert olga.send(f"/act/{act}", **fields).status_code == 409
    assert ours(settings).items() >= left.items()


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
