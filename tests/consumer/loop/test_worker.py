"""The worker's loop on a real journal, with nothing running."""

from collections.abc import Iterable, Iterator, Sequence
from typing import cast

import pytest
from sqlalchemy import create_engine

from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.intake.buffer import Buffer
from consumer.journal import (
    WORKER_DIED,
    Applied,
    EffectMark,
    FinishKind,
    FinishResult,
    Journal,
    Published,
    Row,
    Takeover,
    TakeoverResult,
    TakeoverResultKind,
    Work,
)
from consumer.loop.continuation import NextStep, continuation
from consumer.loop.limits import Limits
from consumer.loop.recovery.sweeper import after_dead
from consumer.loop.scheduler import Scheduler
from consumer.loop.told_runs import ToldStatuses
from consumer.loop.worker import Worker
from consumer.pool import ChildDied, EffectAsked, Event, Finished, Job, Outcome, Pool, PoolSettings
from consumer.pool.outcome import STALE
from consumer.status.status_writer import StatusWriter
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import State
from feedback.statuses import Status
from tests.consumer.pool.driving import job
from tests.consumer.samples import SHA, begin, delivery, payments
from tests.eventually import eventually
from tests.kit.databases import migrated


class Forever:
    """A lease that never ends."""

    def lease_holds(self, now_s: float) -> bool:
        return True

    def may_sweep(self, now_s: float) -> bool:
        return True

    def unbroken_since_s(self, now_s: float) -> float | None:
        return 0.0


class Broken(Forever):
    """A lease that was over for a while, unless nothing has happened to it yet."""

    since_s = 1.0

    def unbroken_since_s(self, now_s: float) -> float | None:
        return self.since_s


class JustBack(Forever):
    """A lease that was renewed a moment ago, after an outage of the database."""

    def may_sweep(self, now_s: float) -> bool:
        return False


class TwoFree:
    """A pool with two free slots, in which nothing happens."""

    free_slots = 2

    def poll(self, timeout_s: float) -> list[Event]:
        return []

    def wake(self) -> None:
        pass

    def answer_effect(self, request_id: str, generation: int, *, granted: bool) -> None:
        pass


class Takeovers:
    """A journal that refuses everything, and remembers what it was asked to take over."""

    def __init__(self) -> None:
        self.asked: list[Takeover] = []
        self.effects: list[EffectMark] = []
        self.held: list[tuple[str, int]] = []
        self.own_runs: list[tuple[str, int, str | None]] = []
        self.told_runs: list[tuple[str, int]] = []

    def apply(
        self, work: Work, *, held: Iterable[tuple[str, int]], tried: Iterable[str]
    ) -> Applied:
        self.asked += work.takeovers
        self.effects += work.effects
        self.own_runs = [
            (one.request_id, one.generation, one.finish and one.finish.state)
            for one in work.own_runs
        ]
        self.told_runs = [(one.request_id, one.generation) for one in work.told_runs]
        self.held = sorted(held)
        written = FinishResult(FinishKind.WRITTEN)
        finished = {(one.request_id, one.generation): written for one in work.finishes}
        stale = TakeoverResult(TakeoverResultKind.STALE, None)
        taken = {(one.request_id, one.generation): stale for one in work.takeovers}
        return Applied((), frozenset(), finished, (), taken)


class Unclaimed(Takeovers):
    """A journal that has lost the claims of all ends."""

    def apply(
        self, work: Work, *, held: Iterable[tuple[str, int]], tried: Iterable[str]
    ) -> Applied:
        lost = FinishResult(FinishKind.LOST)
        finished = {(one.request_id, one.generation): lost for one in work.finishes}
        return Applied((), frozenset(), finished, ())


class ToldOnce(StatusWriter):
    """A status writer to which Redis has confirmed one final status."""

    def __init__(self, store: StatusStore) -> None:
        super().__init__(store)
        self._told.append(Published("a", 1, "SUCCEEDED"))


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(settings=PoolSettings(handlers=(), group="g"))
    yield pool
    pool.kill()


def test_a_worker_with_nothing_but_confirmations_to_write_finds_its_journal_again(
    sqlite_url: str, redis_url: str, group: str, pool: Pool
) -> None:
    migrated(sqlite_url)
    journal = Journal(sqlite_url, group=group, worker_id="me", statement_timeout_s=0.2)
    settings = RedisSection(url=redis_url)
    store = StatusStore(connect(settings), group, settings)
    worker = Worker(
        worker_id="me",
        scheduler=Scheduler(Buffer(8)),
        journal=journal,
        pool=pool,
        status_writer=ToldOnce(store),
        lease=Forever(),
        limits=Limits(slots=2),
    )

    def turned(away: bool) -> bool:
        pool.wake()
        worker.turn()
        return worker.journal_away is away

    with create_engine(sqlite_url).connect() as blocking:
        blocking.exec_driver_sql("BEGIN EXCLUSIVE")
        eventually(lambda: turned(True))
        blocking.rollback()
    eventually(lambda: turned(False))
    journal.close()
    store.close()


def worker_with(journal: Takeovers, lease: Forever, statuses: ToldStatuses | None = None) -> Worker:
    return Worker(
        worker_id="me",
        scheduler=Scheduler(Buffer(8)),
        journal=cast(Journal, journal),
        pool=cast(Pool, TwoFree()),
        status_writer=StatusWriter(cast(StatusStore, None)),
        lease=lease,
        limits=Limits(slots=2),
        statuses=statuses,
    )


def test_what_waits_to_be_taken_over_is_not_claimed_meanwhile() -> None:
    # It may be ours by a call whose reply was lost: a resend would pass for a claim of its own.
    journal = Takeovers()
    worker = worker_with(journal, JustBack())
    one = delivery("a")
    worker.revive([continuation(one, 1, NextStep.ASK, because=WORKER_DIED)])
    begin(worker._in_flight, delivery("b"))
    worker._in_flight.hear(Finished("b", 1, Outcome(State.SUCCEEDED)))
    worker.turn()
    assert (journal.asked, journal.held) == ([], [("a", 1), ("b", 1)])


def test_a_run_of_ours_that_goes_on_is_written_again_first_where_the_journal_has_lost_it() -> None:
    journal = Takeovers()
    worker = worker_with(journal, Forever())
    handler = payments(in_doubt=InDoubtPolicy.QUERY, query=print)
    begin(worker._in_flight, delivery("a")._replace(handler=handler))
    given = job("payments", request_id="a", generation=1)
    worker._in_flight.hear(ChildDied(7, "killed", (given,), ()))
    worker.turn()
    assert (len(journal.asked), journal.own_runs) == (1, [("a", 1, None)])


def test_an_end_without_its_claim_is_written_again() -> None:
    worker = worker_with(Unclaimed(), Forever())
    begin(worker._in_flight, delivery("a"))
    worker._in_flight.hear(Finished("a", 1, Outcome(State.SUCCEEDED)))
    worker.turn()
    assert [one.run for one in worker._in_flight.lost] == [("a", 1)]
    assert worker.held == 0


class Told:
    """A Redis in which one status of the request stands."""

    def __init__(self, status: Status) -> None:
        self._status = status

    def read_many(self, request_ids: Sequence[str]) -> list[Status]:
        return [self._status for _ in request_ids]

    def alive(self, worker_ids: Iterable[str]) -> set[str]:
        return set(worker_ids)


@pytest.mark.parametrize(
    ("generation", "state", "own_runs"),
    [
        (1, State.RUNNING, [("a", 1, None)]),
        (1, State.IN_DOUBT, [("a", 1, "IN_DOUBT")]),
        (2, State.RUNNING, []),
    ],
)
def test_a_run_refused_its_effect_is_written_again_as_its_client_was_told_unless_of_a_later_one(
    generation: int, state: State, own_runs: list[tuple[str, int, str | None]]
) -> None:
    journal = Takeovers()
    told = Status("a", state, attempt=1, generation=generation, worker="w", payload_sha256=SHA)
    worker = worker_with(journal, Forever(), Told(told))
    begin(worker._in_flight, delivery("a"))
    worker._in_flight.hear(Finished("a", 1, STALE))
    worker.turn()
    assert (len(journal.asked), journal.own_runs) == (1, own_runs)
    assert journal.told_runs == [("a", generation)]


@pytest.mark.parametrize(
    ("effect", "is_entered", "claimed_at", "end"),
    [
        (EffectKind.MARKED, True, None, "IN_DOUBT"),
        (EffectKind.EXTERNAL, False, None, "IN_DOUBT"),
        (EffectKind.MARKED, True, 5, "EXPIRED"),
        (EffectKind.MARKED, False, None, "EXPIRED"),
    ],
)
def test_a_run_of_ours_that_may_have_acted_is_in_doubt_where_its_client_was_told_it_never_began(
    effect: EffectKind, is_entered: bool, claimed_at: int | None, end: str
) -> None:
    journal = Takeovers()
    told = Status(
        "a", State.EXPIRED, attempt=1, generation=1, payload_sha256=SHA, claimed_at=claimed_at
    )
    worker = worker_with(journal, Forever(), Told(told))
    handler = payments(effect=effect, in_doubt=InDoubtPolicy.RETRY_SAME_KEY)
    begin(worker._in_flight, delivery("a")._replace(handler=handler))
    if is_entered:
        worker._in_flight.effects_answered({("a", 1)})
    given = job("payments", request_id="a", generation=1)
    worker._in_flight.hear(ChildDied(7, "killed", (given,), ()))
    worker.turn()
    assert (len(journal.asked), journal.own_runs) == (1, [("a", 1, end)])


def test_a_run_whose_key_was_voided_ends_as_its_client_was_told() -> None:
    journal = Takeovers()
    told = Status("a", State.EXPIRED, attempt=1, generation=2, payload_sha256=SHA)
    worker = worker_with(journal, Forever(), Told(told))
    handler = payments(effect=EffectKind.EXTERNAL, in_doubt=InDoubtPolicy.QUERY, query=print)
    one = delivery("a")._replace(handler=handler)
    worker._in_flight.follow(continuation(one, 1, NextStep.ASK, because="CHILD_DIED"), 2)
    worker._in_flight.hear(Finished("a", 2, Outcome(State.IN_DOUBT, voided=True)))
    worker.turn()
    assert journal.own_runs == [("a", 2, "EXPIRED")]


@pytest.mark.parametrize("is_broken", [True, False])
@pytest.mark.parametrize("state", [State.RUNNING, State.EXPIRED])
def test_an_effect_asks_what_its_client_was_told_where_the_lease_was_over_since_its_run_began(
    is_broken: bool, state: State
) -> None:
    journal, lease = Takeovers(), Broken()
    told = Status("a", state, attempt=1, generation=1, worker="w", payload_sha256=SHA)
    worker = worker_with(journal, lease, Told(told))
    worker.turn()
    marked = payments(effect=EffectKind.MARKED)
    begin(worker._in_flight, delivery("a")._replace(handler=marked))
    lease.since_s += is_broken
    worker._in_flight.hear(EffectAsked("a", 1))
    worker.turn()
    assert journal.effects == [EffectMark("a", 1, only_in_time=is_broken)]
    assert journal.told_runs == [("a", 1)] * is_broken
    is_over = is_broken and state is State.EXPIRED
    assert journal.own_runs == [("a", 1, "EXPIRED")] * is_over


class HungLook(Takeovers):
    """A journal that answers the look for own claims when the lease was over for a while."""

    def __init__(self, lease: Broken) -> None:
        super().__init__()
        self._lease = lease

    def own_claims(self) -> list[Row]:
        self._lease.since_s += 1
        return []


def test_a_look_that_hung_counts_as_a_time_in_which_others_may_have_acted() -> None:
    lease = Broken()
    journal = HungLook(lease)
    told = Status("a", State.RUNNING, attempt=1, generation=1, worker="w", payload_sha256=SHA)
    worker = worker_with(journal, lease, Told(told))
    worker.turn()
    marked = payments(effect=EffectKind.MARKED)
    begin(worker._in_flight, delivery("a")._replace(handler=marked))
    worker._in_flight.hear(EffectAsked("a", 1))
    worker._own_runs.look_soon()
    worker.turn()
    assert journal.effects == [EffectMark("a", 1, only_in_time=True)]
    assert journal.told_runs == [("a", 1)]


@pytest.mark.parametrize(
    ("lease", "is_running", "asked"),
    [
        (Forever(), False, 1),
        (Forever(), True, 0),  # its end in our own child says more than any other run
        (JustBack(), False, 0),  # its owner has to have time to renew first
    ],
)
def test_what_is_revived_is_taken_over_unless_it_runs_here_or_its_owner_may_live(
    lease: Forever, is_running: bool, asked: int
) -> None:
    journal = Takeovers()
    worker = worker_with(journal, lease)
    one = delivery("a")
    if is_running:
        begin(worker._in_flight, one)
    worker.revive([continuation(one, 1, NextStep.RUN_AGAIN, because=WORKER_DIED)])
    worker.turn()
    assert len(journal.asked) == asked
    assert worker.held == is_running


class Killed(TwoFree):
    """A pool whose child has begun the first of its jobs when it is killed."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def dispatch(self, jobs: Sequence[Job]) -> None:
        """Take jobs."""
        self.jobs += jobs

    def kill(self) -> list[Event]:
        """Return the death of the child."""
        return [ChildDied(7, "killed", tuple(self.jobs[:1]), tuple(self.jobs[1:]))]


def test_what_no_child_had_begun_when_the_worker_was_cut_is_no_doubt(
    sqlite_url: str, group: str
) -> None:
    migrated(sqlite_url)
    journal = Journal(sqlite_url, group=group, worker_id="me")
    buffer = Buffer(8)
    worker = Worker(
        worker_id="me",
        scheduler=Scheduler(buffer),
        journal=journal,
        pool=cast(Pool, Killed()),
        status_writer=StatusWriter(cast(StatusStore, None)),
        lease=Forever(),
        limits=Limits(slots=2),
    )
    found = [delivery(name)._replace(deadline_at=4_102_444_800_000) for name in ("begun", "not")]
    buffer.put(found)
    worker.turn()
    assert worker.cut() == 2
    rows = {row.request_id: row for row in journal.rows(["begun", "not"])}
    journal.close()
    assert rows["begun"].state == "IN_DOUBT"
    left = rows["not"]
    assert (left.state, left.owner, left.generation) == ("CLAIMED", "me", 1)
    assert after_dead(left, found[1].handler) is NextStep.RUN_AGAIN
