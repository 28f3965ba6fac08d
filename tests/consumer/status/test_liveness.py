"""A worker's lease and heartbeat: kept, judged by the monotonic clock, given back."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, NullPool, create_engine, text

from consumer.journal import Journal, Leases
from consumer.status.availability import ServerOutage
from consumer.status.heartbeat import ForeignJournal, Heartbeat, check_journal
from consumer.status.liveness import Liveness
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings, load
from onceward.servers.redis import Redis
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.rounds import holds_in_one_round
from tests.stack.restartable import Restartable, restartable

pytestmark = pytest.mark.waits

LEASE_S = 1.2
# Long enough for a machine that is slow now and then, where a test says that it holds all the time.
LONG_LEASE_S = 4.5
LIMIT_S = 60.0


class Lives:
    """One worker's liveness on a journal and a Redis of the test's."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.url = settings.journal.url
        self.store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
        self.foreign: list[ForeignJournal] = []
        self.run_ids: list[str] = []
        self.redis = ServerOutage("redis")
        journal = Journal(self.url, group=settings.kafka.group, worker_id="me")
        self.journal_id = journal.journal_id()
        journal.close()
        self.leases = Leases(
            self.url, group=settings.kafka.group, worker_id="me", statement_timeout_s=0.3
        )
        heartbeat = Heartbeat(
            store=self.store,
            worker_id="me",
            journal_id=self.journal_id,
            heartbeat_ttl_s=settings.redis.heartbeat_ttl_s,
            load=lambda: {"held": 3},
            outage=self.redis,
            on_foreign_journal=self.foreign.append,
            on_run_id=self.run_ids.append,
        )
        self.liveness = Liveness(
            leases=self.leases, heartbeat=heartbeat, lease_s=settings.journal.lease_s
        )

    def run(self, sql: str) -> list[Any]:
        """Run SQL on the journal's database."""
        engine = create_engine(self.url, poolclass=NullPool)
        with engine.begin() as connection:
            return _rows(connection, sql)

    @property
    def lease_until(self) -> int | None:
        """The end of the lease in the journal, None when there is none."""
        rows = self.run("SELECT lease_until FROM onceward_worker")
        return None if not rows else int(rows[0][0])


def _rows(connection: Connection, sql: str) -> list[Any]:
    result = connection.execute(text(sql))
    return list(result.all()) if result.returns_rows else []


@contextmanager
def opened(folder: Path, *, redis_url: str, group: str, lease_s: float) -> Iterator[Lives]:
    """Yield the liveness of worker `me`, not started."""
    url = f"sqlite:///{folder}/journal.db"
    migrated(url)
    base = load()
    redis = {"url": redis_url, "heartbeat_ttl_s": lease_s, "timeout_s": 3.0}
    made = Lives(
        base.model_copy(
            update={
                "kafka": base.kafka.model_copy(update={"group": group}),
                "redis": base.redis.model_copy(update=redis),
                "journal": base.journal.model_copy(update={"url": url, "lease_s": lease_s}),
            }
        )
    )
    yield made
    made.leases.close()
    made.store.close()


@pytest.fixture
def lives(tmp_path: Path, redis_url: str, group: str) -> Iterator[Lives]:
    """Yield the liveness of worker `me`, not started."""
    with opened(tmp_path, redis_url=redis_url, group=group, lease_s=LEASE_S) as made:
        yield made


@pytest.fixture
def failing(tmp_path: Path, group: str) -> Iterator[tuple[Lives, Restartable]]:
    """Yield the liveness of worker `me`, started, and its Redis, which may fail."""
    with (
        restartable(Redis) as server,
        opened(tmp_path, redis_url=server.address, group=group, lease_s=LONG_LEASE_S) as made,
    ):
        made.liveness.start()
        yield made, server
        made.liveness.end_renewals(LIMIT_S)


@pytest.fixture
def started(lives: Lives) -> Iterator[Lives]:
    """Yield the liveness of worker `me`, started."""
    lives.liveness.start()
    yield lives
    lives.liveness.end_renewals(LIMIT_S)


def test_a_lease_is_held_from_before_its_renewal_was_sent_and_not_a_moment_longer(
    lives: Lives,
) -> None:
    assert not lives.liveness.lease_holds(time.monotonic())
    before_s = time.monotonic()
    lives.liveness.start()
    lives.liveness.end_renewals(LIMIT_S)
    after_s = time.monotonic()
    assert lives.liveness.lease_holds(before_s + LEASE_S - 0.001)
    assert not lives.liveness.lease_holds(after_s + LEASE_S)


def test_lease_and_heartbeat_are_renewed_for_as_long_as_the_worker_lives(
    tmp_path: Path, redis_url: str, group: str
) -> None:
    with opened(tmp_path, redis_url=redis_url, group=group, lease_s=LONG_LEASE_S) as lives:

        def both_hold() -> None:
            assert lives.liveness.lease_holds(time.monotonic())
            assert lives.store.redis.get(lives.store.worker_key("me")) == b'{"held": 3}'

        lives.liveness.start()
        holds_in_one_round(lambda: _outlive_a_lease(lives, both_hold))
        lives.liveness.end_renewals(LIMIT_S)


def _outlive_a_lease(lives: Lives, holds: Callable[[], None]) -> None:
    """Check all the time that something holds, until the lease that now is would be over."""
    first = lives.lease_until or 0

    def outlived() -> bool:
        holds()
        return (lives.lease_until or 0) > first + LONG_LEASE_S * 1000

    eventually(outlived, timeout_s=LIMIT_S)


def test_a_database_that_does_not_answer_ends_the_lease_and_its_return_renews_it(
    started: Lives,
) -> None:
    engine = create_engine(started.url, poolclass=NullPool)
    with engine.connect() as blocking:
        blocking.exec_driver_sql("BEGIN EXCLUSIVE")
        blocked_s = time.monotonic()
        eventually(lambda: not started.liveness.lease_holds(time.monotonic()), timeout_s=LIMIT_S)
        blocking.rollback()
    # What was in hand before may have been gone on with since.
    unbroken_since_s = eventually(
        lambda: started.liveness.unbroken_since_s(time.monotonic()), timeout_s=LIMIT_S
    )
    assert unbroken_since_s is not None
    assert unbroken_since_s > blocked_s
    assert started.liveness.unbroken_since_s(time.monotonic() + 2 * LEASE_S) is None
    # Everybody else may be renewing only now: nobody is swept for one whole lease.
    assert started.liveness.lease_holds(blocked_s + LEASE_S)
    assert not started.liveness.may_sweep(blocked_s + LEASE_S)
    eventually(lambda: started.liveness.may_sweep(time.monotonic()), timeout_s=LIMIT_S)


def test_nobody_sweeps_in_the_first_lease_of_a_worker(lives: Lives) -> None:
    began_s = time.monotonic()
    lives.liveness.start()
    assert not lives.liveness.may_sweep(began_s + LEASE_S)
    eventually(lambda: lives.liveness.may_sweep(time.monotonic()), timeout_s=LIMIT_S)
    lives.liveness.end_renewals(LIMIT_S)


def test_a_lease_that_somebody_removed_is_taken_up_again(started: Lives) -> None:
    started.run("DELETE FROM onceward_worker")
    eventually(lambda: started.lease_until is not None, timeout_s=LIMIT_S)


def test_another_journal_of_the_group_is_noticed_while_it_runs(started: Lives) -> None:
    started.store.redis.set(started.store.journal_key, "another")
    eventually(lambda: started.foreign, timeout_s=LIMIT_S)
    assert "another" in str(started.foreign[0])
    assert started.store.journal_key in str(started.foreign[0])


def test_a_journals_id_that_redis_forgot_is_put_there_again(started: Lives) -> None:
    key = started.store.journal_key
    started.store.redis.delete(key)
    found = eventually(lambda: started.store.redis.get(key), timeout_s=LIMIT_S)
    assert found == started.journal_id.encode()
    assert started.foreign == []


def test_a_redis_that_hangs_costs_no_lease(failing: tuple[Lives, Restartable]) -> None:
    lives, server = failing
    with server.paused():
        eventually(lambda: lives.redis.is_on, timeout_s=LIMIT_S)

        def holds() -> None:
            assert lives.liveness.lease_holds(time.monotonic())

        holds_in_one_round(lambda: _outlive_a_lease(lives, holds))
    eventually(lambda: not lives.redis.is_on, timeout_s=LIMIT_S)
    eventually(lambda: lives.store.redis.exists(lives.store.worker_key("me")))


def test_a_database_that_hangs_costs_no_heartbeat(started: Lives) -> None:
    engine = create_engine(started.url, poolclass=NullPool)
    with engine.connect() as blocking:
        blocking.exec_driver_sql("BEGIN EXCLUSIVE")
        eventually(lambda: not started.liveness.lease_holds(time.monotonic()), timeout_s=LIMIT_S)
        beats = len(started.run_ids)
        eventually(lambda: len(started.run_ids) > beats + 3, timeout_s=LIMIT_S)
        eventually(lambda: started.store.redis.exists(started.store.worker_key("me")))
        blocking.rollback()


def test_another_start_of_the_server_is_heard_and_the_journals_id_is_there_at_once(
    failing: tuple[Lives, Restartable],
) -> None:
    lives, server = failing
    (first,) = set(lives.run_ids)
    with server.down():
        eventually(lambda: lives.redis.is_on, timeout_s=LIMIT_S)
    eventually(lambda: lives.run_ids[-1] != first, timeout_s=LIMIT_S)
    assert lives.store.redis.get(lives.store.journal_key) == lives.journal_id.encode()
    assert not lives.redis.is_on or eventually(lambda: not lives.redis.is_on, timeout_s=LIMIT_S)


def test_a_worker_is_released_at_once_although_redis_hangs(
    failing: tuple[Lives, Restartable],
) -> None:
    lives, server = failing
    with server.paused():
        eventually(lambda: lives.redis.is_on, timeout_s=LIMIT_S)
        began_s = time.monotonic()
        lives.liveness.stop(LIMIT_S)
        assert time.monotonic() - began_s < LIMIT_S
        assert lives.lease_until is None


def test_a_released_worker_has_neither_lease_nor_heartbeat(lives: Lives) -> None:
    lives.liveness.start()
    lives.liveness.stop(LIMIT_S)
    assert lives.lease_until is None
    assert lives.store.redis.get(lives.store.worker_key("me")) is None


def test_the_first_journal_of_a_group_stays_its_journal(lives: Lives) -> None:
    check_journal(lives.store, "first")
    check_journal(lives.store, "first")
    with pytest.raises(ForeignJournal, match="is first, not second"):
        check_journal(lives.store, "second")


def test_who_has_not_asked_again_since_a_failover_goes_on_and_who_asked_and_stays_behind_ends(
    lives: Lives, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = [1], threading.Event()
    asked.set()

    def timeline() -> int:
        assert asked.wait(LIMIT_S)
        return answers[0]

    monkeypatch.setattr(lives.leases, "timeline", timeline)
    lives.liveness.start()
    asked.clear()
    # A peer asked earlier: the standby was promoted, and this worker's database is that as well.
    lives.store.agree_on_timeline(2)
    beats = len(lives.run_ids)
    eventually(lambda: len(lives.run_ids) >= beats + 2, timeout_s=LIMIT_S)
    answers[0] = 2
    asked.set()
    beats = len(lives.run_ids)
    eventually(lambda: len(lives.run_ids) >= beats + 2, timeout_s=LIMIT_S)

    assert lives.foreign == []

    answers[0] = 1
    eventually(lambda: lives.foreign, timeout_s=LIMIT_S)
    lives.liveness.end_renewals(LIMIT_S)
