"""The requests in flight: what a worker has taken on and not yet finished in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from typing import Protocol

from consumer.handlers.declaration import EffectKind
from consumer.handlers.delivery import Delivery, RefusedRecord
from consumer.journal import EffectMark, Finish, OwnRun, Row, Run, TakeoverKind
from consumer.loop import mapping, settlement
from consumer.loop.continuation import After, Continuation, continuation
from consumer.loop.ended_runs import EndedRuns
from consumer.loop.mapping import CHILD_DIED, TIMEOUT
from consumer.loop.settlement import KnownRun, Settlement
from consumer.pool import ChildDied, ChildFailed, ChildRetired, EffectAsked, Event, Finished, Job
from consumer.pool.exit_watch import of_process
from feedback.clock import epoch_ms, monotonic_s
from feedback.logs import EventLog

log = EventLog("onceward.worker")


class EndJudge(Protocol):
    """Has a say in how a run ends, before that is written (`Feature.judged`)."""

    def judged(self, finish: Finish, delivery: Delivery) -> Finish: ...


@dataclass(slots=True)
class InFlight:
    """The requests in the worker's hands, by their next step.

    Attributes:
        claiming: taken from the buffer; a claim is to be written.
        refusing: records that break the rules (docs: Kafka records); their rows are to be written.
        running: claimed by us, and without an end in the journal, whether a child has it or not.
        effects: runs that wait at their effect for the journal.
        settlements: ends that the journal does not have yet, by run.
        committed: ends that a child wrote with its transaction; only to be told.
        continuing: runs without an end, by the question to the journal; our own are in `running`
            too, those of dead workers are not.
        retrying: settlements without an end, to be told as such.
        entered: runs that the journal let into their effect.
        doubtful: runs that follow one whose effect may have happened.
        asking: runs about which the counterparty is asked, instead of running them.
        tried: of `claiming`, those that the journal may have granted already: its claim was part of
            a call of unknown outcome, or no child took its run.
        untaken: of `claiming`, the runs that the journal had granted and no child took, as they
            were granted.
        lapsed: runs that began before our lease was over for a while: others may have gone on
            with them.
        lost: own runs that the journal seems to have lost; they are to be written again.
        ended: how runs ended here.
        judges: have a say in how runs end.
    """

    claiming: list[Delivery] = field(default_factory=list)
    refusing: list[RefusedRecord] = field(default_factory=list)
    running: dict[Run, Delivery] = field(default_factory=dict)
    effects: dict[Run, EffectMark] = field(default_factory=dict)
    settlements: dict[Run, Settlement] = field(default_factory=dict)
    committed: list[Settlement] = field(default_factory=list)
    continuing: dict[Run, Continuation] = field(default_factory=dict)
    retrying: list[Settlement] = field(default_factory=list)
    entered: set[Run] = field(default_factory=set)
    doubtful: set[Run] = field(default_factory=set)
    asking: set[Run] = field(default_factory=set)
    tried: set[str] = field(default_factory=set)
    untaken: dict[Run, Delivery] = field(default_factory=dict)
    lapsed: set[Run] = field(default_factory=set)
    lost: list[OwnRun] = field(default_factory=list)
    ended: EndedRuns = field(default_factory=EndedRuns)
    judges: tuple[EndJudge, ...] = ()

    @property
    def idle(self) -> bool:
        """Whether nothing is claimed, running, or waiting to be written."""
        busy = self.running or self.claiming or self.refusing or self.settlements
        return not (busy or self.lost)

    @property
    def finishes(self) -> list[Finish]:
        """The ends that the journal does not have yet."""
        return [one.finish for one in self.settlements.values() if one.finish is not None]

    @property
    def unbegun(self) -> set[Run]:
        """Those of `untaken` that follow no run that may have had its effect."""
        return self.untaken.keys() - self.doubtful

    def runs(self) -> Set[Run]:
        """Return the runs in hand: those that have begun, and those that others are to follow."""
        return self.running.keys() | self.continuing.keys()

    def names(self) -> set[str]:
        """Return the requests of which a claim of ours may stand in the journal."""
        runs = (*self.running, *self.continuing, *self.settlements)
        return {run[0] for run in runs} | {one.request_id for one in self.claiming}

    def may_have_acted(self, run: Run) -> bool:
        """Whether a marked effect of this run, or of one that it follows, may have happened."""
        return run in self.entered or run in self.doubtful or run in self.asking

    def leaves_doubt(self, run: Run) -> bool:
        """Whether the effect of a run in hand, or of one that it follows, may have happened."""
        is_external = self.running[run].handler.effect is EffectKind.EXTERNAL
        return is_external or self.may_have_acted(run)

    def own_run(self, run: Run) -> OwnRun:
        """Return the facts of a run in hand, for a journal that may have lost it."""
        claim, settled = mapping.claim(self.running[run]), self.settlements.get(run)
        finish = None if settled is None else settled.finish
        return OwnRun(claim, run[1], self.may_have_acted(run), finish)

    def granted_again(self, batch: Iterable[Delivery]) -> Iterator[OwnRun]:
        """Yield the runs that these were granted as and that no child took, but for first ones.

        In a journal that has lost such a claim an earlier run of ours may stand as the latest. That
        one is over: granted in place of the lost one, it would run again under its old key.
        """
        names = {one.request_id for one in batch}
        for run, delivery in self.untaken.items():
            if run[0] in names and run[1] > 1:
                entered = self.may_have_acted(run)
                yield OwnRun(mapping.claim(delivery), run[1], entered, None, is_begun=False)

    def with_earlier(self, one: OwnRun) -> Iterator[OwnRun]:
        """Yield a run of ours, behind the one of its request that has ended here before it."""
        earlier = self.ended.of(one.request_id)
        if earlier is not None and earlier.generation < one.generation:
            yield earlier
        yield one

    def in_hand(self) -> Iterator[Delivery]:
        """Yield the requests that hold their keys: claimed, about to be, or to go on."""
        yield from self.claiming
        yield from self.running.values()
        for one in self.continuing.values():
            yield one.delivery

    def continuations(self, now_s: float, most: int) -> list[Continuation]:
        """Return the runs that may go on now, the oldest first."""
        due = (one for one in self.continuing.values() if one.due_s <= now_s)
        return [one for one, _ in zip(due, range(most), strict=False)]

    def next_due_s(self) -> float | None:
        """Return the monotonic time at which the next of `continuing` may go on."""
        return min((one.due_s for one in self.continuing.values()), default=None)

    def forget(self, run: Run) -> Delivery | None:
        """Let go of a run that has ended, or that is no longer ours; return its delivery."""
        for names in (self.entered, self.doubtful, self.asking, self.lapsed):
            names.discard(run)
        self.continuing.pop(run, None)
        return self.running.pop(run, None)

    def follow(self, one: Continuation, generation: int) -> None:
        """Take in a run that the journal let us go on with, as this generation."""
        run = (one.takeover.request_id, generation)
        self.running[run] = one.delivery
        if one.asks:
            self.asking.add(run)
        elif one.takeover.kind is TakeoverKind.SAME_KEY:
            self.doubtful.add(run)

    def answered(self, batch: Iterable[Delivery]) -> None:
        """Hear that the journal has answered these claims: those that it granted begin now."""
        names = {one.request_id for one in batch}
        self.tried -= names
        self.untaken = {run: one for run, one in self.untaken.items() if run[0] not in names}

    def lapse(self) -> None:
        """Note that our lease was over for a while, or may have been."""
        self.lapsed |= self.running.keys()
        self.claiming[:] = [one._replace(is_known=True) for one in self.claiming]

    def not_dispatched(self, granted: Iterable[tuple[Delivery, Row]]) -> None:
        """Take back a granted request that could not be given to a child: it is asked for again."""
        for delivery, row in granted:
            self._not_begun((row.request_id, row.generation), delivery)

    def hear(self, event: Event) -> None:
        """Take in the events of the pool."""
        match event:
            case Finished(request_id, generation, outcome):
                run = (request_id, generation)
                if run not in self.running and (outcome.stale or outcome.committed):
                    return  # it went on without this run
                known, now_ms, now_s = self._known(run), epoch_ms(), monotonic_s()
                self._settle(settlement.of_outcome(known, outcome, now_ms=now_ms, now_s=now_s))
            case EffectAsked(request_id, generation):
                self.effects[(request_id, generation)] = EffectMark(request_id, generation)
            case ChildDied():
                self._bury(event)
            case ChildFailed(pid, reason):
                log.error("child.failed", pid=pid, reason=reason)
            case ChildRetired(pid, reason):
                log.info("child.retired", pid=pid, reason=reason)
            case _:
                log.debug("pool.event", kind=type(event).__name__)

    def doubt(self, run: Run, because: str, message: str) -> None:
        """Go by the handler's policy: the effect of this run of ours may have happened.

        Args:
            because: a stable code.
            message: one line for the person who may have to decide.
        """
        self._settle(settlement.in_doubt(self._known(run), because, message))

    def _known(self, run: Run) -> KnownRun:
        entered, doubtful, asks = (run in one for one in (self.entered, self.doubtful, self.asking))
        return KnownRun(run, self.running[run], entered, doubtful, asks)

    def _settle(self, one: Settlement) -> None:
        """Keep a settlement until the journal has it."""
        run = one.run
        if one.follows is not None:
            if one.follows.takeover.kind is TakeoverKind.VOIDED:
                self.asking.discard(run)
            self.continuing[run] = one.follows
            if one.is_retrying:
                self.retrying.append(one)
        elif one.finish is None:
            self._not_begun(run, one.delivery)
        elif one.is_committed:
            self.forget(run)
            self.committed.append(one)
        else:
            self.settlements[run] = one if run in self.asking else self._judged(one, one.finish)

    def _judged(self, one: Settlement, finish: Finish) -> Settlement:
        for judge in self.judges:
            finish = judge.judged(finish, one.delivery)
        return replace(one, finish=finish)

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
            self._not_begun(run, self.running[run])

    def _without_end(self, job: Job, because: str, why: str) -> None:
        run = (job.request_id, job.generation)
        self.effects.pop(run, None)
        self._settle(settlement.of_death(self._known(run), because, why))

    def _not_begun(self, run: Run, delivery: Delivery) -> None:
        # No child acknowledged it, so it has not begun: asked for again, it is still ours.
        self.running.pop(run, None)
        # As one that may have begun it would be written over a peer's run before it.
        self.lost = [one for one in self.lost if one.run != run]
        self.lapsed.discard(run)
        if run in self.asking:
            self.running[run] = delivery
            again = continuation(delivery, run[1], After.ASK, because=CHILD_DIED)
            self.continuing[run] = again
        else:
            self.claiming.append(delivery)
            self.tried.add(delivery.request_id)
            self.untaken[run] = delivery
