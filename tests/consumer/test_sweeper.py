"""What a sweep ends, what it tells, and what it leaves alone."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import pytest
from fakeredis import FakeRedis, FakeServer
from sqlalchemy import NullPool, create_engine, text

from consumer.continuation import Continuation
from consumer.declaration import EffectKind, Handler, InDoubtPolicy
from consumer.delivery import Delivery
from consumer.journal import (
    Claim,
    EffectMark,
    Finish,
    Journal,
    Leases,
    Published,
    Row,
    TakeoverKind,
    migrate,
)
from consumer.sweeper import UNPUBLISHED_AFTER_MS, Sweeper
from consumer.teller import Teller
from feedback.envelope import Envelope, Record
from feedback.errors import KafkaUnavailable
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
    revived: list[Continuation]

    def claimed_by(self, worker_id: str, *request_ids: str, topic: str = "payments") -> None:
        """Let a worker claim requests."""
        self.apply(worker_id, claims=[_claim(request_id, topic) for request_id in request_ids])

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


def _claim(request_id: str, topic: str = "payments") -> Claim:
    effect = HANDLERS[topic].effect if topic in HANDLERS else "external"
    return Claim(request_id, topic, 0, 1, None, SHA, 1, FAR_MS, effect)


def _finish(request_id: str) -> Finish:
    return Finish(request_id, 1, "SUCCEEDED", None, None, "7", False)


def _handler(topic: str, effect: EffectKind, policy: InDoubtPolicy) -> Handler:
    return Handler(function=print, topic=topic, name=topic, effect=effect, in_doubt=policy)


HANDLERS = {
    one.topic: one
    for one in (
        _handler("payments", EffectKind.EXTERNAL, InDoubtPolicy.PARK),
        _handler("marked", EffectKind.MARKED, InDoubtPolicy.PARK),
        _handler("same-key", EffectKind.EXTERNAL, InDoubtPolicy.RETRY_SAME_KEY),
        _handler("query", EffectKind.EXTERNAL, InDoubtPolicy.QUERY),
    )
}


class Payloads:
    """Knows the payload of every request but those named `gone…`; `away…` cannot be read now."""

    asked: ClassVar[list[str]] = []

    def of(self, row: Row) -> Delivery | None:
        """Return a delivery of the row."""
        self.asked.append(row.request_id)
        if row.request_id.startswith("away"):
            raise KafkaUnavailable("no broker")
        if row.request_id.startswith("gone"):
            return None
        record = Record(row.topic, row.partition, row.offset, 0, None, b"v", ())
        envelope = Envelope(row.request_id, row.attempt, row.deadline_at)
        return Delivery(record, envelope, HANDLERS[row.topic], SHA, row.deadline_at, 0.0)


def _sweeper(
    journal: Journal,
    teller: Teller,
    revived: list[Continuation],
    *,
    lease_s: float,
    may_sweep: Callable[[float], bool],
) -> Sweeper:
    return Sweeper(
        journal=journal,
        teller=teller,
        worker_id="me",
        handlers=HANDLERS,
        payloads=Payloads(),
        revive=revived.extend,
        room=lambda: 2 - len(revived),
        lease_s=lease_s,
        may_sweep=may_sweep,
    )


@pytest.fixture
def sweeping(journal_url: str, group: str) -> Iterator[Sweeping]:
    """Yield a sweeper of worker `me` on each kind of journal."""
    migrate(journal_url)
    server = FakeServer()
    store = StatusStore(FakeRedis(server=server), group, RedisSection())
    teller = Teller(store)
    teller.start()
    journal = Journal(journal_url, group=group, worker_id="me")
    revived: list[Continuation] = []
    # Of such a lease a tenth is no millisecond: every sweep is due.
    sweeper = _sweeper(journal, teller, revived, lease_s=0.009, may_sweep=lambda now_s: now_s > 0)
    yield Sweeping(journal_url, group, server, store, teller, sweeper, revived)
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
    sweeping.sweeper.sweep()  # the dead worker's claim on b is ended, and cannot be told
    eventually(lambda: sweeping.teller.redis_away, timeout_s=LIMIT_S)
    sweeping.sweeper.sweep()
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
    assert "onceward-sweeper" not in {thread.name for thread in threading.enumerate()}


def test_it_does_not_sweep_while_it_may_not(sweeping: Sweeping) -> None:
    asked: list[float] = []

    def never(now_s: float) -> bool:
        asked.append(now_s)
        return False

    journal = Journal(sweeping.url, group=sweeping.group, worker_id="me")
    waiting = _sweeper(journal, sweeping.teller, [], lease_s=0.02, may_sweep=never)
    sweeping.claimed_by("dead", "a")
    waiting.start()
    eventually(lambda: len(asked) >= 5, timeout_s=LIMIT_S)
    waiting.stop()
    assert math.isclose(asked[-1], time.monotonic(), abs_tol=LIMIT_S)
    assert sweeping.state("a") is State.UNKNOWN


def test_what_may_run_again_is_revived_and_reads_as_retrying(sweeping: Sweeping) -> None:
    sweeping.claimed_by("dead", "a", topic="marked")
    sweeping.claimed_by("dead", "b", topic="same-key")
    sweeping.sweeper.sweep()
    kinds = {one.run: one.takeover.kind for one in sweeping.revived}
    assert kinds == {("a", 1): TakeoverKind.EXCLUDED, ("b", 1): TakeoverKind.SAME_KEY}
    eventually(lambda: sweeping.state("b") is State.RETRYING, timeout_s=LIMIT_S)


def test_a_marked_claim_in_its_effect_is_parked(sweeping: Sweeping) -> None:
    sweeping.claimed_by("dead", "a", topic="marked")
    sweeping.apply("dead", effects=[EffectMark("a", 1)])
    sweeping.sweeper.sweep()
    eventually(lambda: sweeping.state("a") is State.IN_DOUBT, timeout_s=LIMIT_S)
    assert sweeping.revived == []


def test_one_to_be_asked_about_is_revived_and_told_nothing(sweeping: Sweeping) -> None:
    sweeping.claimed_by("dead", "a", topic="query")
    sweeping.sweeper.sweep()
    assert [one.asks for one in sweeping.revived] == [True]
    sweeping.teller.flush(LIMIT_S)
    assert sweeping.state("a") is State.UNKNOWN


def test_no_more_is_revived_than_there_is_room_for(sweeping: Sweeping) -> None:
    sweeping.claimed_by("dead", "a", "b", "c", topic="marked")
    sweeping.sweeper.sweep()
    assert len(sweeping.revived) == 2


def test_a_request_whose_payload_is_gone_is_in_doubt_and_one_out_of_reach_waits(
    sweeping: Sweeping,
) -> None:
    sweeping.claimed_by("dead", "away", topic="marked")
    sweeping.claimed_by("dead", "gone", topic="same-key")
    sweeping.sweeper.sweep()
    eventually(lambda: sweeping.state("gone") is State.IN_DOUBT, timeout_s=LIMIT_S)
    assert sweeping.store.read("gone").code == "PAYLOAD_GONE"
    assert sweeping.state("away") is State.UNKNOWN
    assert sweeping.revived == []


def test_what_a_person_decides_about_does_not_wait_for_payloads_out_of_reach(
    sweeping: Sweeping,
) -> None:
    sweeping.claimed_by("dead", "away-1", "away-2", topic="same-key")
    sweeping.claimed_by("dead", "z")
    sweeping.sweeper.sweep()
    eventually(lambda: sweeping.state("z") is State.IN_DOUBT, timeout_s=LIMIT_S)
    assert Payloads.asked[-1:] == ["away-1"]  # Kafka is away for the other as well


def test_a_claim_on_a_topic_without_a_handler_here_is_left_to_others(sweeping: Sweeping) -> None:
    sweeping.claimed_by("dead", "a", topic="elsewhere")
    sweeping.claimed_by("dead", "b")
    sweeping.sweeper.sweep()
    eventually(lambda: sweeping.state("b") is State.IN_DOUBT, timeout_s=LIMIT_S)
    assert sweeping.state("a") is State.UNKNOWN
