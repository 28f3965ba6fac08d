"""What a sweep ends, what it tells, and what it leaves alone."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest
from fakeredis import FakeRedis, FakeServer
from sqlalchemy import NullPool, create_engine, text

from consumer.journal import Claim, Finish, Journal, Leases, Published, migrate
from consumer.sweeper import UNPUBLISHED_AFTER_MS, Sweeper
from consumer.teller import Teller
from feedback.settings import RedisSection
from feedback.status import State
from feedback.store import StatusStore
from tests.consumer.samples import SHA
from tests.eventually import eventually

LIMIT_S = 10.0
FAR_MS = 4_102_444_800_000


@dataclass(frozen=True, slots=True)
class Sweeping:
    """A sweeper that is not started, with all that it stands on."""

    url: str
    group: str
    server: FakeServer
    store: StatusStore
    teller: Teller
    sweeper: Sweeper

    def claimed_by(self, worker_id: str, *request_ids: str) -> None:
        """Let a worker claim requests."""
        self.apply(worker_id, claims=[_claim(request_id) for request_id in request_ids])

    def apply(self, worker_id: str, **writes: object) -> None:
        """Let a worker write into the journal."""
        journal = Journal(self.url, group=self.group, worker_id=worker_id)
        journal.apply(**writes)  # type: ignore[arg-type]
        journal.close()

    def lease(self, worker_id: str) -> None:
        """Give a worker a lease that outlasts the test."""
        leases = Leases(self.url, group=self.group, worker_id=worker_id)
        leases.register(600.0)
        leases.close()

    def age(self, milliseconds: int) -> None:
        """Let all ends be this much longer ago."""
        engine = create_engine(self.url, poolclass=NullPool)
        with engine.begin() as connection:
            older = text("UPDATE onceward_request SET finished_at = finished_at - :age")
            connection.execute(older, {"age": milliseconds})

    def state(self, request_id: str) -> State:
        """Return what a client sees."""
        return self.store.read(request_id).state


def _claim(request_id: str) -> Claim:
    return Claim(request_id, "payments", 0, 1, None, SHA, 1, FAR_MS, "external")


def _finish(request_id: str) -> Finish:
    return Finish(request_id, 1, "SUCCEEDED", None, None, "7", False)


@pytest.fixture
def sweeping(journal_url: str, group: str) -> Iterator[Sweeping]:
    """Yield a sweeper of worker `me` on each kind of journal."""
    migrate(journal_url)
    server = FakeServer()
    store = StatusStore(FakeRedis(server=server), group, RedisSection())
    teller = Teller(store)
    teller.start()
    journal = Journal(journal_url, group=group, worker_id="me")
    sweeper = Sweeper(
        journal=journal, teller=teller, lease_s=0.1, may_sweep=lambda now_s: now_s > 0
    )
    yield Sweeping(journal_url, group, server, store, teller, sweeper)
    journal.close()
    server.connected = True
    teller.stop()


@pytest.fixture
def sweep(sweeping: Sweeping) -> Callable[[], None]:
    """Return a function that sweeps once and waits until all is told."""

    def once() -> None:
        sweeping.sweeper.sweep()
        assert sweeping.teller.flush(LIMIT_S)

    return once


def test_claims_of_a_dead_worker_end_in_doubt_and_those_of_a_living_one_go_on(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.lease("alive")
    sweeping.claimed_by("alive", "a")
    sweeping.claimed_by("dead", "d1", "d2")
    sweep()
    status = sweeping.store.read("d1")
    assert (status.state, status.code, status.worker) == (State.IN_DOUBT, "WORKER_DIED", "dead")
    assert sweeping.state("d2") is State.IN_DOUBT
    assert sweeping.state("a") is State.UNKNOWN


def test_an_outcome_that_no_client_was_told_is_told(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.claimed_by("dead", "a", "b")
    sweeping.apply("dead", finishes=[_finish("a"), _finish("b")])
    sweeping.apply("dead", published=[Published("b", 1, "SUCCEEDED")])
    sweep()
    assert sweeping.state("a") is State.UNKNOWN  # its worker may be about to tell it
    sweeping.age(UNPUBLISHED_AFTER_MS)
    sweep()
    assert (sweeping.state("a"), sweeping.store.read("a").result) == (State.SUCCEEDED, 7)
    assert sweeping.state("b") is State.UNKNOWN
    assert sweeping.teller.take_told() == [Published("a", 1, "SUCCEEDED")]


def test_while_redis_is_away_the_journal_is_not_asked_for_what_to_tell(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.claimed_by("dead", "a", "b")
    sweeping.apply("dead", finishes=[_finish("a")])
    sweeping.age(UNPUBLISHED_AFTER_MS)
    sweeping.server.connected = False
    sweep()  # the dead worker's claim on b is ended, and cannot be told
    eventually(lambda: sweeping.teller.redis_away, timeout_s=LIMIT_S)
    sweep()
    sweeping.server.connected = True
    eventually(lambda: sweeping.state("b") is State.IN_DOUBT, timeout_s=LIMIT_S)
    eventually(lambda: not sweeping.teller.redis_away, timeout_s=LIMIT_S)
    sweep()
    assert sweeping.state("a") is State.SUCCEEDED


def test_it_sweeps_by_itself_until_it_is_stopped(sweeping: Sweeping) -> None:
    sweeping.sweeper.start()
    sweeping.claimed_by("dead", "a")
    eventually(lambda: sweeping.state("a") is State.IN_DOUBT, timeout_s=LIMIT_S)
    sweeping.sweeper.stop()


def test_it_does_not_sweep_while_it_may_not(sweeping: Sweeping) -> None:
    asked: list[float] = []

    def never(now_s: float) -> bool:
        asked.append(now_s)
        return False

    waiting = Sweeper(
        journal=Journal(sweeping.url, group=sweeping.group, worker_id="me"),
        teller=sweeping.teller,
        lease_s=0.02,
        may_sweep=never,
    )
    sweeping.claimed_by("dead", "a")
    waiting.start()
    eventually(lambda: len(asked) >= 5, timeout_s=LIMIT_S)
    waiting.stop()
    assert math.isclose(asked[-1], time.monotonic(), abs_tol=LIMIT_S)
    assert sweeping.state("a") is State.UNKNOWN
