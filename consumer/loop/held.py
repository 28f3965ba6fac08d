"""What a worker has taken on and not yet finished in the journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

from consumer.features.retries import following
from consumer.handlers.declaration import EffectKind
from consumer.handlers.delivery import Delivery, RefusedRecord
from consumer.journal import EffectMark, Finish, OwnRun, Row, TakeoverKind
from consumer.loop import entries
from consumer.loop.continuation import (
    PAUSE_AFTER_ERROR_S,
    After,
    Continuation,
    after_run,
    after_voided,
    continuation,
)
from consumer.loop.ended_runs import EndedRuns
from consumer.loop.entries import CHILD_DIED, CLAIM_LOST, TIMEOUT, Run
from consumer.pool import (
    ChildDied,
    ChildFailed,
    ChildRetired,
    EffectAsked,
    Event,
    Finished,
    Job,
    Outcome,
)
from consumer.pool.death import of_process
from consumer.pool.outcome import HANDLER_ERROR, JOURNAL_UNAVAILABLE, Raised
from feedback.clock import epoch_ms, monotonic_s
from feedback.logs import EventLog
from feedback.status import State

log = EventLog("onceward.worker")

# What ran, and the names of what waited behind it.
Cover = tuple[Delivery, tuple[tuple[str, str, int], ...]]


@dataclass(slots=True)
class Held:
    """The requests in the worker's hands, by what happens to them next.

    Attributes:
        claiming: taken from the buffer; a claim is to be written.
        refusing: records that break the contract; their rows are to be written.
        running: claimed by us, and without an end in the journal, whether a child has it or not.
        effects: runs that wait at their effect for the journal.
        finishes: ends that the journal does not have yet.
        raised: what the handlers of these raised.
        committed: ends that a child wrote with its transaction; only to be told.
        continuing: runs without an end, by what the journal is to be asked for; our own are in
            `running` too, those of dead workers are not.
        retrying: of these, what is to be told as such.
        entered: runs that the journal let into their effect.
        doubtful: runs that follow one whose effect may have happened.
        asking: runs about which the counterparty is asked, instead of running them.
        covers: what waited behind a run of its key when it began, by name, and that run's own
            delivery: what ends with its success (`consumer.features.collapse`).
        stood_in: of these, runs whose success a child has committed; what waits is still to end.
        tried: of `claiming`, what the journal may have granted already: its claim was part of a
            call of unknown outcome, or no child took its run.
        lapsed: runs that began before our lease was over for a while: others may have gone on
            with them.
        lost: own runs that the journal seems to have lost; they are to be written again.
        ended: how runs ended here.
    """

    claiming: list[Delivery] = field(default_factory=list)
    refusing: list[RefusedRecord] = field(default_factory=list)
    running: dict[Run, Delivery] = field(default_factory=dict)
    effects: dict[Run, EffectMark] = field(default_factory=dict)
    finishes: dict[Run, Finish] = field(default_factory=dict)
    raised: dict[Run, Raised] = field(default_factory=dict)
    committed: list[tuple[Delivery, Finish]] = field(default_factory=list)
    continuing: dict[Run, Continuation] = field(default_factory=dict)
    retrying: list[Continuation] = field(default_factory=list)
    entered: set[Run] = field(default_factory=set)
    doubtful: set[Run] = field(default_factory=set)
    asking: set[Run] = field(default_factory=set)
    covers: dict[Run, Cover] = field(default_factory=dict)
    stood_in: dict[Run, Cover] = field(default_factory=dict)
    tried: set[str] = field(default_factory=set)
    lapsed: set[Run] = field(default_factory=set)
    lost: list[OwnRun] = field(default_factory=list)
    ended: EndedRuns = field(default_factory=EndedRuns)

    @property
    def idle(self) -> bool:
        """Whether nothing is claimed, running, or waiting to be written."""
        held = self.running or self.claiming or self.refusing or self.finishes
        return not (held or self.stood_in or self.lost)

    def runs(self) -> Set[Run]:
        """Return the runs in hand: those that have begun, and those that others are to follow."""
        return self.running.keys() | self.continuing.keys()

    def names(self) -> set[str]:
        """Return the requests of which a claim of ours may stand in the journal."""
        runs = (*self.running, *self.continuing, *self.finishes)
        return {run[0] for run in runs} | {one.request_id for one in self.claiming}

    def may_have_acted(self, run: Run) -> bool:
        """Whether a marked effect of this run, or of one that it follows, may have happened."""
        return run in self.entered or run in self.doubtful or run in self.asking

    def own_run(self, run: Run) -> OwnRun:
        """Return what is known of a run in hand, for a journal that may have lost it."""
        claim = entries.claim(self.running[run])
        return OwnRun(claim, run[1], self.may_have_acted(run), self.finishes.get(run))

    def with_earlier(self, one: OwnRun) -> Iterator[OwnRun]:
        """Yield a run of ours, behind the one of its request that has ended here before it."""
        earlier = self.ended.of(one.request_id)
        if earlier is not None and earlier.generation < one.generation:
            yield earlier
        yield one

    def in_hand(self) -> Iterator[Delivery]:
        """Yield what is claimed, about to be, or to go on: what its key waits for."""
        yield from self.claiming
        yield from self.running.values()
        for one in self.continuing.values():
            yield one.delivery
        for head, _ in self.stood_in.values():
            yield head

    def continuations(self, now_s: float, most: int) -> list[Continuation]:
        """Return what may go on now, the oldest first."""
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
        self.covers.pop(run, None)
        return self.running.pop(run, None)

    def follow(self, one: Continuation, generation: int) -> None:
        """Take in what the journal let us go on with, as this generation."""
        run = (one.takeover.request_id, generation)
        self.running[run] = one.delivery
        if one.asks:
            self.asking.add(run)
        elif one.takeover.kind is TakeoverKind.SAME_KEY:
            self.doubtful.add(run)

    def lapse(self) -> None:
        """Note that our lease was over for a while, or may have been."""
        self.lapsed |= self.running.keys()
        self.claiming[:] = [one._replace(is_known=True) for one in self.claiming]

    def not_dispatched(self, granted: Iterable[tuple[Delivery, Row]]) -> None:
        """Take back what was granted and could not be given to a child: it is asked for again."""
        for delivery, row in granted:
            self._not_begun((row.request_id, row.generation), delivery)

    def hear(self, event: Event) -> None:
        """Take in what the pool tells."""
        match event:
            case Finished(request_id, generation, outcome):
                self._finished((request_id, generation), outcome)
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

    def doubt(self, run: Run, because: str, message: str | None, *, due_s: float = 0.0) -> None:
        """Go by the handler's policy: the effect of this run of ours may have happened.

        Args:
            because: a stable code.
            message: one line for the person who may have to decide.
            due_s: monotonic time before which nothing else is tried.
        """
        delivery = self.running[run]
        handler = delivery.handler
        after = after_run(handler.effect, handler.in_doubt, effect_begun=True)
        if after is After.PARK:
            self.finishes[run] = entries.in_doubt(run, because, message)
        else:
            self._continue(continuation(delivery, run[1], after, because=because, due_s=due_s))

    def _finished(self, run: Run, outcome: Outcome) -> None:
        if outcome.stale:
            self._without_claim(run)
        elif outcome.unbegun and self.running[run].handler.effect is EffectKind.TRANSACTIONAL:
            self._without_connection(run)
        elif outcome.committed:
            cover = self.covers.get(run)
            if cover is not None and run not in self.asking:
                self.stood_in[run] = cover
            delivery = self.forget(run)
            if delivery is not None:
                self.committed.append((delivery, entries.finish(run, outcome)))
        elif outcome.voided:
            self.asking.discard(run)
            self._continue(after_voided(self.running[run], run[1]))
        elif self._leaves_doubt(run, outcome):
            due_s = monotonic_s() + PAUSE_AFTER_ERROR_S
            self.doubt(run, outcome.code or State.IN_DOUBT, outcome.message, due_s=due_s)
        else:
            self.finishes[run] = self._ended(run, outcome)
            if outcome.raised is not None:
                self.raised[run] = outcome.raised

    def _without_claim(self, run: Run) -> None:
        """Ask for another run: the journal refused this one its effect, so it left nothing.

        The database may have lost the claim, and then nobody else would end the request. Where
        another has it, the journal refuses this too, and says how it stands.
        """
        delivery = self.running.get(run)
        if delivery is not None:
            again = continuation(delivery, run[1], After.RUN_AGAIN, because=CLAIM_LOST)
            # Told as RUNNING meanwhile: most likely another worker has it.
            self.continuing[run] = again

    def _without_connection(self, run: Run) -> None:
        delivery = self.running[run]
        if epoch_ms() < delivery.deadline_at:
            self._not_begun(run, delivery)
        else:
            # The journal's clock decides, and ends it as EXPIRED.
            self._continue(
                continuation(delivery, run[1], After.RUN_AGAIN, because=JOURNAL_UNAVAILABLE)
            )

    def _ended(self, run: Run, outcome: Outcome) -> Finish:
        finish = entries.finish(run, outcome)
        if run in self.asking:
            return finish
        return following.ended(finish, self.running[run], now_ms=epoch_ms())

    def _leaves_doubt(self, run: Run, outcome: Outcome) -> bool:
        """Whether the policy is asked about this end, and not only a person."""
        if run in self.asking or self.running[run].handler.effect is EffectKind.TRANSACTIONAL:
            return False
        if outcome.state is State.IN_DOUBT:
            return True
        if run not in self.doubtful:
            return False
        # Where it ended before its own effect, that of the run before it may have happened.
        is_marked = self.running[run].handler.effect is EffectKind.MARKED
        is_before = is_marked and run not in self.entered and outcome.state is State.FAILED
        # That nothing happened is said of this run alone.
        return is_before or outcome.resend or outcome.code == HANDLER_ERROR

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
        delivery = self.running[run]
        if run in self.asking:
            self.finishes[run] = entries.in_doubt(run, because, f"while it was asked about: {why}")
        elif delivery.handler.effect is EffectKind.EXTERNAL or run in self.entered | self.doubtful:
            self.doubt(run, because, why)
        else:
            again = continuation(delivery, run[1], After.RUN_AGAIN, because=because)
            self._continue(again)

    def _not_begun(self, run: Run, delivery: Delivery) -> None:
        # No child acknowledged it, so it has not begun: asked for again, it is still ours.
        self.running.pop(run, None)
        self.covers.pop(run, None)
        self.lapsed.discard(run)
        if run in self.asking:
            self.running[run] = delivery
            self._continue(continuation(delivery, run[1], After.ASK, because=CHILD_DIED))
        else:
            self.claiming.append(delivery)
            self.tried.add(delivery.request_id)

    def _continue(self, one: Continuation) -> None:
        self.continuing[one.run] = one
        if not one.asks:
            self.retrying.append(one)
