"""Sessions that take connections from each other, and trust none."""

from __future__ import annotations

import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import create_engine, event, text
from sqlalchemy.pool import NullPool

from feedback.clock import monotonic_s
from feedback.errors import NotAvailable
from feedback.sql import keeping
from feedback.sql.keeping import KeptEngines
from feedback.sql.session import Session
from tests.eventually import eventually
from tests.stack import Servers
from tests.stack.postgres import fresh_database

TIMEOUT_S = 10.0


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> KeptEngines:
    """Return the engines of this test alone."""
    made = KeptEngines()
    monkeypatch.setattr("feedback.sql.session.KEPT", made)
    return made


@pytest.fixture
def url(servers: Servers) -> Iterator[str]:
    """Return the URL of a new database on PostgreSQL."""
    with fresh_database(servers.postgres, f"kept_{uuid.uuid4().hex}") as url:
        yield url


def opened(url: str) -> Session:
    """Return a session; it does not connect yet."""
    return Session(url, timeout_s=TIMEOUT_S, translate=lambda error: NotAvailable(str(error)))


def backend(session: Session) -> int:
    """Return the process of the server that answers a session."""
    with session.transaction(read_only=True) as connection:
        return int(connection.scalar(text("SELECT pg_backend_pid()")) or 0)


def backend_of_one(url: str) -> int:
    """Return the process that answers a session which is closed then."""
    with closing(opened(url)) as session:
        return backend(session)


def ours(url: str) -> list[int]:
    """Return the processes of the server that have a connection of ours."""
    engine = create_engine(url, poolclass=NullPool)
    found = text(
        "SELECT pid FROM pg_stat_activity "
        "WHERE datname = current_database() AND application_name = 'onceward'"
    )
    with engine.connect() as connection:
        return [*connection.scalars(found)]


def test_sessions_take_a_connection_from_each_other_only_while_it_is_kept(
    url: str, kept: KeptEngines
) -> None:
    assert backend_of_one(url) != backend_of_one(url)
    with kept.keeping():
        first = backend_of_one(url)
        with kept.keeping():
            assert backend_of_one(url) == first
        assert backend_of_one(url) == first
        assert ours(url) == [first]
    eventually(lambda: not ours(url))
    assert backend_of_one(url) != first


def test_what_a_session_has_left_open_is_rolled_back_before_the_next_one(
    url: str, kept: KeptEngines
) -> None:
    with kept.keeping():
        session = opened(url)
        # Kept until the end, since it would roll back by itself when nobody has it any more.
        left_open = session.transaction()
        connection = left_open.__enter__()
        connection.execute(text("CREATE TABLE account (id INTEGER)"))
        first = connection.scalar(text("SELECT pg_backend_pid()"))
        session.close()
        with closing(opened(url)) as session, session.transaction() as connection:
            assert connection.scalar(text("SELECT pg_backend_pid()")) == first
            assert connection.scalar(text("SELECT to_regclass('account')")) is None
        del left_open


def test_as_many_sessions_as_there_are_at_once_each_have_their_connection(
    url: str, kept: KeptEngines
) -> None:
    with kept.keeping():
        sessions = [opened(url) for _ in range(3 * keeping.MOST_KEPT)]
        assert len({backend(one) for one in sessions}) == len(sessions)
        for one in sessions:
            one.close()
        eventually(lambda: len(ours(url)) == keeping.MOST_KEPT)


@pytest.mark.parametrize("is_silent", [False, True], ids=["ended", "silent"])
def test_a_server_process_that_ends_or_is_silent_is_replaced_before_the_next_reading(
    url: str, kept: KeptEngines, is_silent: bool
) -> None:
    with kept.keeping():
        first = backend_of_one(url)
        os.kill(first, signal.SIGSTOP if is_silent else signal.SIGTERM)
        try:
            began_s = monotonic_s()
            assert backend_of_one(url) != first
            assert monotonic_s() - began_s < keeping.ANSWER_S + TIMEOUT_S / 2
        finally:
            if is_silent:
                os.kill(first, signal.SIGCONT)


def test_a_connection_is_replaced_after_its_life_and_closed_when_nobody_looks(
    url: str, kept: KeptEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert keeping._KEPT["pool_recycle"] == keeping.LIFE_S
    monkeypatch.setitem(keeping._KEPT, "pool_recycle", 0)
    with kept.keeping():
        first = backend_of_one(url)
        eventually(lambda: backend_of_one(url) != first)
        kept.close_idle()
        assert ours(url)
        monkeypatch.setattr(keeping, "IDLE_S", 0.0)
        kept.close_idle()
        eventually(lambda: not ours(url))


def test_one_that_is_in_use_when_all_are_closed_is_closed_behind_its_use(
    url: str, kept: KeptEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "IDLE_S", 0.0)
    with kept.keeping():
        session = opened(url)
        first = backend(session)
        kept.close_idle()
        assert backend(session) == first
        session.close()
        eventually(lambda: first not in ours(url))
        assert backend_of_one(url) == backend_of_one(url)


def test_one_that_is_made_while_all_are_closed_is_closed_behind_its_use(
    url: str, kept: KeptEngines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "IDLE_S", 0.0)
    with kept.keeping():
        engine = kept.engine(url, timeout_s=TIMEOUT_S, section="journal")
        session = opened(url)
        pool = engine.pool
        event.listen(engine, "connect", lambda connection, record: kept.close_idle(), once=True)
        first = backend(session)
        assert engine.pool is not pool
        session.close()
        eventually(lambda: first not in ours(url))
        assert not ours(url)


def test_what_is_opened_anew_takes_no_kept_connection_and_leaves_none(
    url: str, kept: KeptEngines
) -> None:
    with kept.keeping():
        first = backend_of_one(url)
        with kept.anew():
            assert backend_of_one(url) != first
        eventually(lambda: ours(url) == [first])
        assert backend_of_one(url) == first
