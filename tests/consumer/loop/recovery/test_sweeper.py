"""What a sweep ends, what it tells, and what it leaves alone."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from fakeredis import FakeRedis, FakeServer
from sqlalchemy import NullPool, create_engine, text

from consumer.handlers.declaration import EffectKind, Handler, InDoubtPolicy
from consumer.handlers.delivery import Delivery
from consumer.journal import (
    Claim,
    EffectMark,
    Finish,
    Journal,
    JournalUnavailable,
    Leases,
    Published,
    Row,
    TakeoverKind,
    Work,
    pacing,
)
from consumer.journal.sweeps.dead_claims import UnhandledRequest
from consumer.loop.continuation import Continuation
from consumer.loop.recovery import sweeper as module
from consumer.loop.recovery.sweeper import FAILURES, UNPUBLISHED_AFTER_MS, Sweeper
from consumer.status.status_writer import StatusWriter
from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable
from feedback.logs import event_of
from feedback.records.envelope import Envelope, Record
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection, load
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.consumer.cores import core_of
from tests.consumer.samples import SHA
from tests.eventually import eventually
from tests.kit.databases import migrated

LIMIT_S = 60.0
FAR_MS = 4_102_444_800_000


@dataclass(frozen=True, slots=True)
class Sweeping:
    """A sweeper that is not started, with all that it stands on."""

    url: str
    group: str
    server: FakeServer
    store: StatusStore
    status_writer: StatusWriter
    sweeper: Sweeper
    revived: list[Continuation]

    def claimed_by(self, worker_id: str, *request_ids: str, topic: str = "payments") -> None:
        """Let a worker claim requests."""
        self.apply(
            worker_id, Work(claims=[_claim(request_id, topic) for request_id in request_ids])
        )

    def apply(self, worker_id: str, work: Work) -> None:
        """Let a worker write into the journal."""
        journal = Journal(self.url, group=self.group, worker_id=worker_id)
        journal.apply(work)
        journal.close()

    def lease(self, worker_id: str) -> None:
        """Give a worker a lease that outlasts the test."""
        leases = Leases(self.url, group=self.group, worker_id=worker_id)
        leases.register(600.0)
        leases.close()
        # It is longer than the sweeper's own: its heartbeat says that it is no leftover.
        self.store.beat(worker_id, {})

    def age(self, milliseconds: int) -> None:
        """Let all ends be this much longer ago."""
        engine = create_engine(self.url, poolclass=NullPool)
        with engine.begin() as connection:
            older = text("UPDATE onceward_request SET finished_at = finished_at - :age")
            connection.execute(older, {"age": milliseconds})

    def deadline(self, request_id: str, epoch_ms: int) -> None:
        """Move a deadline."""
        engine = create_engine(self.url, poolclass=NullPool)
        with engine.begin() as connection:
            moved = text("UPDATE onceward_request SET deadline_at = :at WHERE request_id = :name")
            connection.execute(moved, {"at": epoch_ms, "name": request_id})

    def rows(self, *request_ids: str) -> list[Row]:
        """Return what the journal says."""
        journal = Journal(self.url, group=self.group, worker_id="reads")
        rows = journal.rows(request_ids)
        journal.close()
        return rows

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
        _handler("inside", EffectKind.TRANSACTIONAL, InDoubtPolicy.PARK),
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
    status_writer: StatusWriter,
    revived: list[Continuation],
    *,
    lease_s: float,
    may_sweep: Callable[[float], bool],
) -> Sweeper:
    settings = load()
    short = settings.journal.model_copy(update={"lease_s": lease_s})
    core = core_of(
        settings.model_copy(update={"journal": short}),
        worker_id="me",
        handlers=tuple(HANDLERS.values()),
        sweeps=journal,
        payloads=Payloads(),
        status_writer=status_writer,
        store=status_writer._store,
        may_sweep=may_sweep,
    )
    return Sweeper(core, revive=revived.extend, room=lambda: 2 - len(revived))


@pytest.fixture
def sweeping(journal_url: str, group: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sweeping]:
    """Yield a sweeper of worker `me` on each kind of journal; no look is too slow for it."""
    monkeypatch.setattr(pacing, "QUICK_S", math.inf)
    migrated(journal_url)
    server = FakeServer()
    # A heartbeat lives until it is ended, however slow the machine is.
    section = RedisSection(heartbeat_ttl_s=3600.0)
    store = StatusStore(FakeRedis(server=server), group, section)
    status_writer = StatusWriter(store)
    status_writer.start()
    journal = Journal(journal_url, group=group, worker_id="me")
    revived: list[Continuation] = []
    # Of such a lease a tenth is no millisecond: every sweep is due.
    sweeper = _sweeper(
        journal,
        status_writer,
        revived,
        lease_s=0.009,
        may_sweep=lambda now_s: now_s > 0,
    )
    yield Sweeping(journal_url, group, server, store, status_writer, sweeper, revived)
    journal.close()
    server.connected = True
    status_writer.stop(LIMIT_S)


@pytest.fixture
def sweep(sweeping: Sweeping) -> Callable[[], None]:
    """Return a function that sweeps once and waits until all is told."""

    def once() -> None:
        sweeping.sweeper.sweep()
        assert sweeping.status_writer.flush(LIMIT_S)

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


def test_claims_of_a_worker_whose_heartbeat_lives_are_left_until_it_is_gone_or_their_deadline(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.store.beat("elsewhere", {})
    sweeping.claimed_by("elsewhere", "open")
    sweeping.apply("elsewhere", Work(claims=[_claim("late")]))
    sweeping.deadline("late", epoch_ms() - 1)
    sweep()
    assert sweeping.state("open") is State.UNKNOWN
    assert sweeping.state("late") is State.IN_DOUBT
    sweeping.store.end_heartbeat("elsewhere")
    sweep()
    assert sweeping.state("open") is State.IN_DOUBT


def test_claims_of_workers_whose_heartbeats_live_hide_none_that_is_behind_them(
    sweeping: Sweeping, sweep: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIMIT", 2)
    for owner in ("a-lives", "b-lives"):
        sweeping.store.beat(owner, {})
        sweeping.claimed_by(owner, *(f"{owner}-{number}" for number in range(3)))
    sweeping.claimed_by("c-dead", "first", "second", "third")
    sweep()
    sweep()
    assert {sweeping.state(name) for name in ("first", "second", "third")} == {State.IN_DOUBT}
    assert sweeping.state("b-lives-2") is State.UNKNOWN


def test_a_lease_that_a_clock_set_back_left_far_ahead_is_over_when_nobody_renews_it(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    for name in ("dead", "alive"):
        sweeping.lease(name)
        sweeping.claimed_by(name, name)
    sweeping.store.end_heartbeat("dead")

    def is_swept() -> bool:
        sweep()
        return sweeping.state("dead") is State.IN_DOUBT

    sweep()
    assert sweeping.state("dead") is State.UNKNOWN
    eventually(is_swept, timeout_s=LIMIT_S)
    assert sweeping.state("alive") is State.UNKNOWN


def test_what_nobody_has_a_handler_for_ends_after_its_deadline_and_is_logged(
    sweeping: Sweeping, sweep: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    names = {"external": State.IN_DOUBT, "marked": State.EXPIRED, "waits": State.EXPIRED}
    marked = _claim("marked", "removed")._replace(effect_kind="marked")
    waits = _claim("waits", "removed")
    sweeping.apply("dead", Work(claims=[_claim("external", "removed"), marked, waits]))
    wait = _finish("waits")._replace(state="RETRYING", delay_ms=0)
    sweeping.apply("dead", Work(finishes=[wait]))
    sweep()
    assert {sweeping.state(name) for name in names} == {State.UNKNOWN}
    for name in names:
        sweeping.deadline(name, epoch_ms() - 1_000)
    sweep()
    assert {name: sweeping.state(name) for name in names} == names
    assert sweeping.store.read("external").code == "NO_HANDLER"
    eventually(lambda: _logged(sweeping, sweep, caplog), timeout_s=LIMIT_S)


def _logged(
    sweeping: Sweeping, sweep: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> bool:
    sweeping.claimed_by("dead", "another", topic="removed")
    sweep()
    return "handler.missing" in caplog.text


def test_a_dead_claim_whose_client_was_told_its_end_ends_like_that_and_goes_on_nowhere(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.claimed_by("dead", "told", topic="marked")
    told = StatusWrite("told", State.SUCCEEDED, 1, 1, SHA, fields={"result": "7"})
    sweeping.store.write([told])
    sweep()
    assert sweeping.revived == []
    journal = Journal(sweeping.url, group=sweeping.group, worker_id="me")
    (verdict,) = journal.apply(Work(claims=[_claim("told", "marked")])).verdicts
    journal.close()
    assert verdict.row is not None
    assert (verdict.row.state, verdict.row.result) == ("SUCCEEDED", "7")


def test_a_slow_look_for_what_nobody_handles_is_not_repeated_soon_and_holds_nothing_up(
    sweeping: Sweeping, sweep: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    def gives_up(*given: object) -> list[UnhandledRequest]:
        asked.append(1)
        raise JournalUnavailable("it takes too long")

    monkeypatch.setattr(module, "pause_unless_quick_s", lambda took_s: 3600.0)
    monkeypatch.setattr(sweeping.sweeper._journal, "unhandled", gives_up)
    sweeping.claimed_by("dead", "a")
    sweeping.apply("dead", Work(finishes=[_finish("a")]))
    sweeping.age(UNPUBLISHED_AFTER_MS)
    sweep()
    assert sweeping.state("a") is State.UNKNOWN
    sweep()
    assert (sweeping.state("a"), asked) == (State.SUCCEEDED, [1])


def test_an_outcome_that_no_client_was_told_is_told(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.claimed_by("dead", "a", "b")
    sweeping.apply("dead", Work(finishes=[_finish("a"), _finish("b")]))
    sweeping.apply("dead", Work(published=[Published("b", 1, "SUCCEEDED")]))
    sweep()
    assert sweeping.state("a") is State.UNKNOWN  # its worker may be about to tell it
    sweeping.age(UNPUBLISHED_AFTER_MS)
    sweep()
    assert (sweeping.state("a"), sweeping.store.read("a").result) == (State.SUCCEEDED, 7)
    assert sweeping.state("b") is State.UNKNOWN
    assert sweeping.status_writer.take_told() == [Published("a", 1, "SUCCEEDED")]


def test_a_full_page_of_statuses_to_repair_is_followed_by_the_next_at_once(
    sweeping: Sweeping, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LIMIT", 3)
    monkeypatch.setattr(module, "REPAIRS_FOR", 1_000.0)
    names = [f"r{number}" for number in range(10)]
    sweeping.claimed_by("dead", *names)
    # All at one time, by the database's clock: pages go on by their ids.
    sweeping.apply("dead", Work(finishes=[_finish(name) for name in names]))
    sweeping.age(UNPUBLISHED_AFTER_MS)
    sweeping.sweeper.sweep()
    eventually(
        lambda: {sweeping.state(name) for name in names} == {State.SUCCEEDED}, timeout_s=LIMIT_S
    )


def test_while_redis_is_away_the_journal_is_not_asked_for_what_to_tell(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.claimed_by("dead", "a", "b")
    sweeping.apply("dead", Work(finishes=[_finish("a")]))
    sweeping.age(UNPUBLISHED_AFTER_MS)
    sweeping.server.connected = False
    sweeping.sweeper.sweep()  # the dead worker's claim on b is ended, and cannot be told
    eventually(lambda: sweeping.status_writer.redis_away, timeout_s=LIMIT_S)
    sweeping.sweeper.sweep()
    sweeping.server.connected = True
    eventually(lambda: sweeping.state("b") is State.IN_DOUBT, timeout_s=LIMIT_S)
    eventually(lambda: not sweeping.status_writer.redis_away, timeout_s=LIMIT_S)
    sweep()
    assert sweeping.state("a") is State.SUCCEEDED


def test_it_sweeps_by_itself_until_it_is_stopped(sweeping: Sweeping) -> None:
    sweeping.sweeper.start()
    sweeping.claimed_by("dead", "a")
    eventually(lambda: sweeping.state("a") is State.IN_DOUBT, timeout_s=LIMIT_S)
    sweeping.sweeper.stop(LIMIT_S)
    assert "onceward-sweeper" not in {thread.name for thread in threading.enumerate()}


def test_it_does_not_sweep_while_it_may_not(sweeping: Sweeping) -> None:
    asked: list[float] = []

    def never(now_s: float) -> bool:
        asked.append(now_s)
        return False

    journal = Journal(sweeping.url, group=sweeping.group, worker_id="me")
    waiting = _sweeper(journal, sweeping.status_writer, [], lease_s=0.02, may_sweep=never)
    sweeping.claimed_by("dead", "a")
    waiting.start()
    eventually(lambda: len(asked) >= 5, timeout_s=LIMIT_S)
    waiting.stop(LIMIT_S)
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
    sweeping.apply("dead", Work(effects=[EffectMark("a", 1)]))
    sweeping.sweeper.sweep()
    eventually(lambda: sweeping.state("a") is State.IN_DOUBT, timeout_s=LIMIT_S)
    assert sweeping.revived == []


@pytest.mark.parametrize("topic", ["same-key", "query"])
def test_a_claim_made_when_a_person_was_to_decide_is_parked_whatever_is_declared_now(
    sweeping: Sweeping, topic: str
) -> None:
    sweeping.apply("dead", Work(claims=[_claim("a", topic)._replace(in_doubt="park")]))
    sweeping.sweeper.sweep()
    eventually(lambda: sweeping.state("a") is State.IN_DOUBT, timeout_s=LIMIT_S)
    assert sweeping.revived == []


def test_one_to_be_asked_about_is_revived_and_told_nothing(sweeping: Sweeping) -> None:
    sweeping.claimed_by("dead", "a", topic="query")
    sweeping.sweeper.sweep()
    assert [one.asks for one in sweeping.revived] == [True]
    sweeping.status_writer.flush(LIMIT_S)
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


def test_sweeps_that_fail_again_and_again_are_said_once_and_so_is_their_end(
    sweeping: Sweeping, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def is_away(every_ms: int) -> bool:
        raise JournalUnavailable("it takes too long")

    with monkeypatch.context() as patched, caplog.at_level("INFO"):
        patched.setattr(sweeping.sweeper._journal, "sweep_is_due", is_away)
        for _ in range(3 * FAILURES):
            sweeping.sweeper.sweep()
    with caplog.at_level("INFO"):
        sweeping.sweeper.sweep()
    events = [event_of(record) for record in caplog.records]
    said = [event for event in events if event.startswith("sweeps.")]
    assert said == ["sweeps.fail", "sweeps.back"]


@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED])
def test_an_end_that_is_older_than_what_its_client_was_told_is_told_to_nobody(
    sweeping: Sweeping, sweep: Callable[[], None], state: State
) -> None:
    sweeping.claimed_by("dead", "a")
    sweeping.apply("dead", Work(finishes=[Finish("a", 1, "FAILED", "CODE", None, None, False)]))
    sweeping.age(UNPUBLISHED_AFTER_MS)
    fields = {"worker": "dead", "topic": "payments"}
    sweeping.store.write([StatusWrite("a", state, 2, 2, SHA, fields)])
    expected = State.IN_DOUBT if state is State.RUNNING else State.SUCCEEDED

    def is_ended() -> bool:
        sweep()
        (row,) = sweeping.rows("a")
        return (row.state, row.generation) == (expected, 2)

    eventually(is_ended, timeout_s=LIMIT_S)
    status = sweeping.store.read("a")
    assert (status.state, status.generation) == (expected, 2)
    assert status.code == ("END_LOST" if state is State.RUNNING else None)


@pytest.mark.parametrize("voids", [0, 2])
def test_a_dead_workers_claim_goes_on_behind_the_run_that_its_client_was_told_of(
    sweeping: Sweeping, sweep: Callable[[], None], voids: int
) -> None:
    sweeping.claimed_by("dead", "s", topic="same-key")
    declared = {"effect_kind": "external", "in_doubt": "retry_same_key", "voids": str(voids)}
    fields = {"worker": "dead", "topic": "same-key", **declared}
    sweeping.store.write([StatusWrite("s", State.RUNNING, 1, 3, SHA, fields)])
    sweep()
    assert sweeping.revived == []
    sweep()
    assert [one.takeover.generation for one in sweeping.revived] == [3]
    assert [row.voids for row in sweeping.rows("s")] == [voids]


def test_a_person_decides_about_a_later_run_whose_key_an_older_worker_did_not_tell(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.claimed_by("dead", "s", topic="same-key")
    declared = {"effect_kind": "external", "in_doubt": "retry_same_key"}
    fields = {"worker": "dead", "topic": "same-key", **declared}
    sweeping.store.write([StatusWrite("s", State.RUNNING, 1, 3, SHA, fields)])
    sweep()
    sweep()
    assert sweeping.revived == []
    assert [(row.state, row.generation) for row in sweeping.rows("s")] == [("IN_DOUBT", 3)]


@pytest.mark.parametrize("declared", [{"effect_kind": "external", "in_doubt": "park"}, {}])
@pytest.mark.parametrize("topic", ["inside", "same-key"])
def test_a_lost_run_is_judged_as_it_was_declared_whatever_came_before_and_is_declared_now(
    sweeping: Sweeping, sweep: Callable[[], None], declared: dict[str, str], topic: str
) -> None:
    sweeping.claimed_by("dead", "a", topic=topic)
    fields = {"worker": "dead", "topic": topic, **declared}
    sweeping.store.write([StatusWrite("a", State.RUNNING, 1, 2, SHA, fields)])
    sweep()
    sweep()
    assert sweeping.revived == []
    (row,) = sweeping.rows("a")
    assert (row.state, row.generation, row.effect_kind) == ("IN_DOUBT", 2, "external")


@pytest.mark.parametrize("state", [State.RUNNING, State.SUCCEEDED, State.FAILED])
def test_what_was_told_of_another_topics_request_of_its_id_neither_ends_a_claim_nor_holds_it_up(
    sweeping: Sweeping, sweep: Callable[[], None], state: State
) -> None:
    sweeping.claimed_by("dead", "external")
    sweeping.claimed_by("dead", "left-nothing", topic="marked")
    fields = {"worker": "dead", "topic": "of-old"}
    for request_id in ("external", "left-nothing"):
        sweeping.store.write([StatusWrite(request_id, state, 2, 2, SHA, fields)])
    sweep()
    (row,) = sweeping.rows("external")
    assert (row.state, row.code) == ("IN_DOUBT", "WORKER_DIED")
    assert [one.takeover.request_id for one in sweeping.revived] == ["left-nothing"]


@pytest.mark.parametrize(
    "fault",
    [{"status": "TELEPORTED"}, {"attempt": "x"}, {"result": "{"}, {"generation": "9" * 30}],
    ids="-".join,
)
def test_a_status_that_cannot_be_read_hides_none_of_the_others(
    sweeping: Sweeping, sweep: Callable[[], None], fault: dict[Any, Any]
) -> None:
    sweeping.claimed_by("dead", "a", "b", topic="marked")
    fields = {"worker": "dead", "topic": "marked"}
    told = [StatusWrite(name, State.SUCCEEDED, 1, 1, SHA, fields) for name in ("a", "b")]
    sweeping.store.write(told)
    sweeping.store.redis.hset(sweeping.store.request_key("b"), mapping=fault)
    sweep()
    assert [row.state for row in sweeping.rows("a")] == ["SUCCEEDED"]
    assert [one.takeover.request_id for one in sweeping.revived] == ["b"]


@pytest.mark.parametrize(
    "hostile", [{"worker": "dead\0"}, {"generation": str(2**63 - 1)}], ids=["worker", "generation"]
)
def test_a_later_run_that_no_database_may_hold_hinders_no_other(
    sweeping: Sweeping, sweep: Callable[[], None], hostile: dict[Any, Any]
) -> None:
    sweeping.claimed_by("dead", "a", "b", "c", topic="same-key")
    sweeping.apply("dead", Work(finishes=[_finish(name) for name in ("a", "b", "c")]))
    sweeping.age(UNPUBLISHED_AFTER_MS)
    fields = {"worker": "dead", "topic": "same-key", "resend": "1"}
    told = [StatusWrite(name, State.FAILED, 1, 2, SHA, fields) for name in ("a", "b", "c")]
    sweeping.store.write(told)
    sweeping.store.redis.hset(sweeping.store.request_key("b"), mapping=hostile)

    def are_ended() -> bool:
        sweep()
        return [row.generation for row in sweeping.rows("a", "c")] == [3, 3]

    eventually(are_ended, timeout_s=LIMIT_S)


def test_what_was_told_ends_a_claim_also_where_no_database_may_hold_its_words(
    sweeping: Sweeping, sweep: Callable[[], None]
) -> None:
    sweeping.claimed_by("dead", "a")
    fields = {"worker": "dead", "topic": "payments", "code": "A\0B", "message": "no\0no"}
    sweeping.store.write([StatusWrite("a", State.FAILED, 1, 1, SHA, fields)])
    sweep()
    assert [row.state for row in sweeping.rows("a")] == ["FAILED"]
