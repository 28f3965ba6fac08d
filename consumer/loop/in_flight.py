"""The requests in flight: what a worker has taken on and not yet finished in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from typing import Protocol

from consumer.handlers.declaration import EffectKind
from consumer.handlers.delivery import Delivery, RefusedRecord
from consumer.intake.buffer import Received
from consumer.journal import EffectMark, Finish, FinishKind, OwnRun, Row, Run, TakeoverKind
from consumer.loop import mapping, settlement
from consumer.loop.continuation import Continuation, NextStep, continuation
from consumer.loop.ended_runs import EndedRuns
from consumer.loop.mapping import CHILD_DIED, TIMEOUT
from consumer.loop.settlement import KnownRun, Settlement
from consumer.pool import (
    ChildDied,
    ChildFailed,
    ChildRetired,
    EffectAsked,
    Event,
    Finished,
    Job,
)
from consumer.pool.exit_watch import of_process
from feedback.clock import epoch_ms, monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.worker")


class EndJudge(Protocol):
    """Has a say in how a run ends, before that is written (`Feature.judged`)."""

    def judged(self, finish: Finish, delivery: Delivery) -> Finish: ...


class InFlight:
    """The requests in the worker's hands, by their next step.

    A request is taken, and its claim granted; its run begins in a child, may enter its effect, and
    gets a settlement, which the journal writes. A method stands for each of these events, and
    nothing else changes the state. Between two turns of the loop

    - a run waits at its effect, or has a settlement, or goes on (`continuing`): one of them at
      most. It is among `running` all the while; only what goes on for a dead worker is not;
    - also among `running` is each run about which the counterparty is asked, that was let into its
      effect, or that lapsed;
    - a claim that the journal may have granted already (`tried`) is among `claiming`. A run that no
      child took is that of such a claim, and not among `running`.

    Belongs to the loop's thread. What its properties return changes under the reader: other threads
    copy it first.

    Args:
        ended: remembers how runs ended here.
        judges: have a say in how runs end.
    """

    def __init__(self, *, ended: EndedRuns | None = None, judges: Sequence[EndJudge] = ()) -> None:
        self._ended = EndedRuns() if ended is None else ended
        self._judges = judges
        self._claiming: list[Delivery] = []
        self._refusing: list[RefusedRecord] = []
        self._tried: set[str] = set()
        # Of `claiming`, the runs that the journal had granted and no child took, as granted.
        self._untaken: dict[Run, Delivery] = {}
        # The requests of `tried` whose claim may be older than a lapse of our lease.
        self._lapsed_claims: set[str] = set()
        self._running: dict[Run, Delivery] = {}
        # Runs about which the counterparty is asked, instead of running them.
        self._asking: set[Run] = set()
        # Runs that follow one whose effect may have happened.
        self._doubtful: set[Run] = set()
        self._effects: dict[Run, EffectMark] = {}
        # Runs that the journal let into their effect.
        self._entered: set[Run] = set()
        self._lapsed: set[Run] = set()
        self._settlements: dict[Run, Settlement] = {}
        self._continuing: dict[Run, Continuation] = {}
        # Settlements that are told without a write: a child wrote the end, or a run follows.
        self._unwritten: list[Settlement] = []
        self._lost: list[OwnRun] = []

    # looking -------------------------------------------------------------------------------

    @property
    def claiming(self) -> Sequence[Delivery]:
        """The requests of which a claim is to be written."""
        return self._claiming

    @property
    def refusing(self) -> Sequence[RefusedRecord]:
        """The records that break the rules (docs: Kafka records); their rows are to be written."""
        return self._refusing

    @property
    def tried(self) -> Set[str]:
        """Those of `claiming` that the journal may have granted already.

        A claim was part of a call of unknown outcome, or no child took its run.
        """
        return self._tried

    @property
    def running(self) -> Mapping[Run, Delivery]:
        """The runs that we claimed and that have no end in the journal, in a child or not."""
        return self._running

    @property
    def effects(self) -> Mapping[Run, EffectMark]:
        """The runs that wait at their effect for the journal."""
        return self._effects

    @property
    def settlements(self) -> Mapping[Run, Settlement]:
        """The ends that the journal does not have yet."""
        return self._settlements

    @property
    def continuing(self) -> Mapping[Run, Continuation]:
        """The runs without an end that go on, ours and those of dead workers."""
        return self._continuing

    @property
    def lost(self) -> Sequence[OwnRun]:
        """Own runs that the journal seems to have lost; they are to be written again."""
        return self._lost

    @property
    def idle(self) -> bool:
        """Whether nothing is claimed, running, or waiting to be written."""
        busy = self._running or self._claiming or self._refusing or self._settlements
        return not (busy or self._lost)

    @property
    def waits_for_slots(self) -> bool:
        """Whether nothing runs or is to be written: all that is held goes on in a free slot."""
        goes_on = self._running.keys() <= self._continuing.keys()
        return goes_on and not (self._refusing or self._settlements or self._lost)

    @property
    def finishes(self) -> list[Finish]:
        """The ends that the journal does not have yet, as it is to write them."""
        return [one.finish for one in self._settlements.values() if one.finish is not None]

    @property
    def unbegun(self) -> set[Run]:
        """The granted runs that no child took and that follow none which may have acted."""
        return self._untaken.keys() - self._doubtful

    @property
    def lapsed_at_effects(self) -> list[Run]:
        """The runs at their effects that others may have gone on with meanwhile."""
        return [run for run in self._effects if run in self._lapsed]

    def runs(self) -> Set[Run]:
        """Return the runs in hand: those that have begun, and those that others are to follow."""
        return self._running.keys() | self._continuing.keys()

    def names(self) -> set[str]:
        """Return the requests of which a claim of ours may stand in the journal."""
        runs = (*self._running, *self._continuing, *self._settlements)
        return {run[0] for run in runs} | {one.request_id for one in self._claiming}

    def in_hand(self) -> Iterator[Delivery]:
        """Yield the requests that hold their keys: claimed, about to be, or to go on."""
        yield from self._claiming
        yield from self._running.values()
        for one in self._continuing.values():
            yield one.delivery

    def continuations(self, now_s: float, most: int) -> list[Continuation]:
        """Return the runs that may go on now, the oldest first."""
        due = (one for one in self._continuing.values() if one.due_s <= now_s)
        return [one for one, _ in zip(due, range(most), strict=False)]

    def next_due_s(self) -> float | None:
        """Return the monotonic time at which the next of `continuing` may go on."""
        return min((one.due_s for one in self._continuing.values()), default=None)

    def leaves_doubt(self, run: Run) -> bool:
        """Whether the effect of a run in hand, or of one that it follows, may have happened."""
        is_external = self._running[run].handler.effect is EffectKind.EXTERNAL
        return is_external or self._may_have_acted(run)

    def own_run(self, run: Run) -> OwnRun:
        """Return the facts of a run in hand, for a journal that may have lost it."""
        claim, settled = mapping.claim(self._running[run]), self._settlements.get(run)
        finish = None if settled is None else settled.finish
        return OwnRun(claim, run[1], self._may_have_acted(run), finish)

    def ended_here(self, request_id: str) -> OwnRun | None:
        """Return the latest run of a request that ended here, as far as it is remembered."""
        return self._ended.of(request_id)

    def granted_again(self, batch: Iterable[Delivery]) -> Iterator[OwnRun]:
        """Yield the runs that these were granted as and that no child took, but for first ones.

        In a journal that has lost such a claim an earlier run of ours may stand as the latest. That
        one is over: granted in place of the lost one, it would run again under its old key.
        """
        names = {one.request_id for one in batch}
        for run, delivery in self._untaken.items():
            if run[0] in names and run[1] > 1:
                entered = self._may_have_acted(run)
                yield OwnRun(mapping.claim(delivery), run[1], entered, None, is_begun=False)

    def _may_have_acted(self, run: Run) -> bool:
        """Whether a marked effect of this run, or of one that it follows, may have happened."""
        return run in self._entered or run in self._doubtful or run in self._asking

    # taken and claimed ---------------------------------------------------------------------

    def take(self, received: Iterable[Received]) -> None:
        """Take requests into hand: each is claimed, or refused, with one of the next turns."""
        for one in received:
            if isinstance(one, Delivery):
                self._claiming.append(one)
            else:
                self.refuse(one)

    def refuse(self, one: RefusedRecord) -> None:
        """Let the row of a record that never runs be written with the next turn."""
        self._refusing.append(one)

    def take_refused(self) -> list[RefusedRecord]:
        """Let go of the records whose rows were written now, and return them."""
        written, self._refusing = self._refusing, []
        return written

    def unanswered(self, batch: Iterable[Delivery]) -> None:
        """Hear that the outcome of these claims is unknown: the journal may have granted them."""
        self._tried.update(one.request_id for one in batch)

    def answered(self, batch: Iterable[Delivery]) -> None:
        """Hear that the journal has answered these claims: those that it granted begin now."""
        names = {one.request_id for one in batch}
        self._tried -= names
        self._untaken = {run: one for run, one in self._untaken.items() if run[0] not in names}

    def drop_answered(self, batch: Sequence[Delivery]) -> None:
        """Let go of answered claims, the first of `claiming`: the others have been told."""
        del self._claiming[: len(batch)]

    def begin(self, delivery: Delivery, row: Row) -> Job:
        """Take in a granted run, and return the job that a child is given now."""
        run = (row.request_id, row.generation)
        asks, doubtful = run in self._asking, run in self._doubtful
        job = mapping.job(delivery, row, asks=asks, doubtful=doubtful)
        self._running[run] = delivery
        if run[0] in self._lapsed_claims:
            self._lapsed_claims.discard(run[0])
            self._lapsed.add(run)
        return job

    def not_dispatched(self, granted: Iterable[tuple[Delivery, Row]]) -> None:
        """Take back a granted request that could not be given to a child: it is asked for again."""
        for delivery, row in granted:
            self._not_begun((row.request_id, row.generation), delivery)

    def lapse(self) -> None:
        """Note that our lease was over for a while, or may have been.

        Others may have gone on with the runs that had begun, or ended claims that no child took.
        """
        self._lapsed |= self._running.keys()
        self._lapsed_claims &= {one.request_id for one in self._claiming}
        self._lapsed_claims |= self._tried
        self._effects.update({run: EffectMark(*run, only_in_time=True) for run in self._effects})
        self._claiming[:] = [one._replace(is_known=True) for one in self._claiming]

    # the effect and the end of a run -------------------------------------------------------

    def hear(self, event: Event) -> None:
        """Take in the events of the pool."""
        match event:
            case Finished(request_id, generation, outcome):
                run = (request_id, generation)
                if run not in self._running and (outcome.stale or outcome.committed):
                    return  # it went on without this run
                known, now_ms, now_s = self._known(run), epoch_ms(), monotonic_s()
                self._settle(settlement.of_outcome(known, outcome, now_ms=now_ms, now_s=now_s))
            case EffectAsked(request_id, generation):
                run = (request_id, generation)
                self._effects[run] = EffectMark(*run, only_in_time=run in self._lapsed)
            case ChildDied():
                self._bury(event)
            case ChildFailed(pid, reason):
                log.error("child.failed", pid=pid, reason=reason)
            case ChildRetired(pid, reason):
                log.info("child.retired", pid=pid, reason=reason)
            case _:
                log.debug("pool.event", kind=type(event).__name__)

    def effects_answered(self, entered: Set[Run]) -> None:
        """Hear which runs the journal let into their effects; all that waited have their answer."""
        self._entered |= entered
        self._effects.clear()

    def take_unwritten(self) -> list[Settlement]:
        """Let go of the settlements that are told without a write of ours, and return them.

        A child wrote the end with its transaction, or a run without an end is to be followed.
        """
        unwritten, self._unwritten = self._unwritten, []
        return unwritten

    def take_settlements(self) -> list[Settlement]:
        """Let go of the ends that were written now, and return them; call `end` with each."""
        settlements, self._settlements = self._settlements, {}
        return list(settlements.values())

    def end(self, one: Settlement, kind: FinishKind) -> bool:
        """Let go of a run whose end was written; return whether it was still ours.

        It is remembered how it ended, and written again where the journal has lost its claim.
        """
        entered = self._may_have_acted(one.run)
        is_ours = self.forget(one.run)
        if is_ours and kind is not FinishKind.STALE:
            claim = one.finish.claim if one.finish is not None else None
            own = OwnRun(claim or mapping.claim(one.delivery), one.run[1], entered, one.finish)
            if kind is FinishKind.LOST:
                self.lose(own)
            self._ended.note(own)
        return is_ours

    def forget(self, run: Run) -> bool:
        """Let go of a run that has ended, or is no longer ours; return whether it was ours."""
        for names in (self._entered, self._doubtful, self._asking, self._lapsed):
            names.discard(run)
        self._continuing.pop(run, None)
        return self._running.pop(run, None) is not None

    # runs without an end -------------------------------------------------------------------

    def revive(self, one: Continuation) -> None:
        """Go on with a run of a dead worker.

        A run that a child of ours still has was ours before others had it for a while: its own end
        says more.
        """
        if one.run not in self._running:
            self._continuing.setdefault(one.run, one)

    def follow(self, one: Continuation, generation: int) -> None:
        """Take in a run that the journal let us go on with, as this generation."""
        run = (one.takeover.request_id, generation)
        self._running[run] = one.delivery
        if one.asks:
            self._asking.add(run)
        elif one.takeover.kind is TakeoverKind.SAME_KEY:
            self._doubtful.add(run)

    def granted(self, row: Row) -> None:
        """Hear of a granted claim: a takeover of unknown outcome may have led to it.

        Then its run follows the one before.
        """
        one = self._continuing.get((row.request_id, row.generation - 1))
        if one is not None:
            self.forget(one.run)
            self.follow(one, row.generation)

    def doubt(self, one: Continuation) -> None:
        """Go by the handler's policy: the effect of a run of ours had begun.

        Its mark had been written after all, by a call of unknown outcome.
        """
        del self._continuing[one.run]
        known, because = self._known(one.run), one.takeover.because
        self._settle(settlement.in_doubt(known, because, "its effect had begun"))

    # lost by the database ------------------------------------------------------------------

    def lose(self, one: OwnRun) -> None:
        """Let a run that the journal seems to have lost be written again.

        Behind the one of its request that has ended here before it.
        """
        earlier = self._ended.of(one.request_id)
        if earlier is not None and earlier.generation < one.generation:
            self._lost.append(earlier)
        self._lost.append(one)

    def lost_written(self) -> None:
        """Hear that all of `lost` was written."""
        self._lost.clear()

    # how a run goes on ---------------------------------------------------------------------

    def _known(self, run: Run) -> KnownRun:
        flags = (self._entered, self._doubtful, self._asking)
        entered, doubtful, asks = (run in one for one in flags)
        return KnownRun(run, self._running[run], entered, doubtful, asks)

    def _settle(self, one: Settlement) -> None:
        """Keep a settlement until the journal has it."""
        run = one.run
        if one.follows is not None:
            if one.follows.takeover.kind is TakeoverKind.VOIDED:
                self._asking.discard(run)
            self._continuing[run] = one.follows
            if one.is_retrying:
                self._unwritten.append(one)
        elif one.finish is None:
            self._not_begun(run, one.delivery)
        elif one.is_committed:
            self.forget(run)
            self._unwritten.append(one)
        else:
            self._settlements[run] = one if run in self._asking else self._judged(one, one.finish)

    def _judged(self, one: Settlement, finish: Finish) -> Settlement:
        for judge in self._judges:
            finish = judge.judged(finish, one.delivery)
        return one if finish is one.finish else replace(one, finish=finish)

    def _bury(self, death: ChildDied) -> None:
        log.warning(
            "child.died",
            pid=death.pid,
            reason=death.reason,
            overdue=len(death.overdue),
            started=len(death.started),
            not_started=len(death.not_started),
        )
        for job in death.overdue:
            self._without_end(job, TIMEOUT, f"it ran longer than {job.time_limit_s:g} s")
        for job in death.started:
            self._without_end(job, CHILD_DIED, of_process(death.reason))
        for job in death.not_started:
            run = (job.request_id, job.generation)
            self._not_begun(run, self._running[run])

    def _without_end(self, job: Job, because: str, why: str) -> None:
        run = (job.request_id, job.generation)
        self._effects.pop(run, None)
        self._settle(settlement.of_death(self._known(run), because, why))

    def _not_begun(self, run: Run, delivery: Delivery) -> None:
        # No child acknowledged it, so it has not begun: asked for again, it is still ours.
        self._running.pop(run, None)
        # As one that may have begun it would be written over a peer's run before it.
        self._lost = [one for one in self._lost if one.run != run]
        self._lapsed.discard(run)
        if run in self._asking:
            self._running[run] = delivery
            again = continuation(delivery, run[1], NextStep.ASK, because=CHILD_DIED)
            self._continuing[run] = again
        else:
            self._claiming.append(delivery)
            self._tried.add(delivery.request_id)
            self._untaken[run] = delivery
