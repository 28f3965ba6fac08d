"""The pool of one worker: children that start, ask at their effect, finish, and die at any step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum, auto
from typing import TYPE_CHECKING

from consumer.handlers.declaration import EffectKind, Handler, InDoubtPolicy
from consumer.handlers.errors import InDoubt, Rejected
from consumer.handlers.query_result import Happened, Unknown, Voided
from consumer.pool import ChildDied, EffectAsked, Event, Finished, Job, Outcome, Started
from consumer.pool.outcome import STALE, judge_answer, judge_error, judge_return
from consumer.pool.predicates import NOT_APPLICABLE
from consumer.pool.transactional import TransactionalRuns
from feedback.status import State
from tests.simulation.bank import Key, KeyRefused
from tests.simulation.journal import SimulatedTransactions
from tests.simulation.processes import Crash, Process
from tests.simulation.requests import Act, Declared

if TYPE_CHECKING:
    from tests.simulation.world import World

MAX_RESULT_BYTES = 1000


class Stage(Enum):
    """How far a run is."""

    GIVEN = auto()
    STARTED = auto()
    ASKING = auto()
    ENTERED = auto()
    DONE = auto()
    HANGING = auto()


class SimulatedRun:
    """One run of a handler in a child.

    Attributes:
        may_have_acted: it may have had an effect, as far as anybody can tell who did not see it.
        has_charged: the bank has counted a charge of it.
    """

    def __init__(self, job: Job, act: Act, handler: Handler, worker_id: str) -> None:
        self.job = job
        self.handler = handler
        self.worker_id = worker_id
        self.act = act
        self.stage = Stage.GIVEN
        self.granted = False
        self.refused = False
        self.may_have_acted = False
        self.has_charged = False
        self.ends_ms: int | None = None

    @property
    def name(self) -> str:
        """For the story."""
        return f"{self.job.request_id}/{self.job.generation}"

    @property
    def key(self) -> Key:
        """What the counterparty knows it by."""
        return Key(self.job.request_id, self.job.voids)

    @property
    def is_idempotent(self) -> bool:
        """Whether the counterparty charges once for all runs of its key."""
        return self.handler.in_doubt is InDoubtPolicy.RETRY_SAME_KEY

    @property
    def can_go_on(self) -> bool:
        """Whether its next step depends on nobody else."""
        waits = self.stage is Stage.ASKING and not (self.granted or self.refused)
        return not waits and self.stage is not Stage.HANGING

    def raised(self) -> Exception | None:
        """Return what its handler raises in the end."""
        match self.act:
            case Act.FAILS_BEFORE | Act.FAILS_AFTER:
                return RuntimeError("it failed")
            case Act.IS_UNSURE_BEFORE | Act.IS_UNSURE_AFTER:
                return InDoubt("who knows")
            case Act.DECLARES:
                return Declared("nothing happened")
            case Act.REJECTS:
                return Rejected("NOT_TODAY")
        return None


class SimulatedPool:
    """The surface of `Pool`, with children that take their steps when the scheduler says so.

    Attributes:
        children: the runs in each child.
    """

    def __init__(
        self,
        world: World,
        process: Process,
        worker_id: str,
        *,
        handlers: Mapping[str, Handler],
        children: int,
        slots: int,
    ) -> None:
        self._world = world
        self._process = process
        self._slots = slots
        self._handlers = handlers
        self.children: list[list[SimulatedRun]] = [[] for _ in range(children)]
        self._told: list[Event] = []
        self._transactional = TransactionalRuns.__new__(TransactionalRuns)
        transactions = SimulatedTransactions(world, process, worker_id)
        self._transactional._transactions = transactions  # type: ignore[assignment]
        self._worker_id = worker_id

    # what the worker's loop calls ----------------------------------------------------------

    @property
    def free_slots(self) -> int:
        """How many jobs can be dispatched."""
        return sum(self._slots - len(runs) for runs in self.children)

    @property
    def has_news(self) -> bool:
        """Whether a poll would return something."""
        return bool(self._told)

    def poll(self, timeout_s: float) -> list[Event]:
        """Return what happened; time passes in the scheduler only."""
        told, self._told = self._told, []
        return told

    def wake(self) -> None:
        """Do nothing: a poll never waits."""

    def dispatch(self, jobs: Sequence[Job]) -> None:
        """Give each job to a child."""

        def give() -> None:
            for job in jobs:
                runs = min(self.children, key=len)
                assert len(runs) < self._slots, "no free slot"
                act = self._world.plan_of(job.request_id).act(job.request_id, job.generation)
                handler = self._handlers[job.topic]
                if handler.effect is EffectKind.TRANSACTIONAL:
                    act = act.undone
                runs.append(SimulatedRun(job, act, handler, self._worker_id))

        self._world.watch.dispatched(self._worker_id, jobs)
        names = ", ".join(f"{job.request_id}/{job.generation}" for job in jobs)
        self._world.call(self._process, "pool", f"dispatches {names}", give, OSError)

    def answer_effect(self, request_id: str, generation: int, *, granted: bool) -> None:
        """Let a run go on that waits at its effect."""
        for run in (one for runs in self.children for one in runs):
            if run.stage is Stage.ASKING and (run.job.request_id, run.job.generation) == (
                request_id,
                generation,
            ):
                run.granted, run.refused = granted, not granted

    def kill(self) -> list[Event]:
        """Kill all children, and return their last events."""
        for child in range(len(self.children)):
            self.die(child)
        return self.poll(0.0)

    # what the scheduler does ---------------------------------------------------------------

    def can_step(self, child: int) -> bool:
        """Whether the child has something to do."""
        return any(run.can_go_on for run in self.children[child])

    def step(self, child: int, turn: int) -> None:
        """Let one run of the child take its next step."""
        ready = [run for run in self.children[child] if run.can_go_on]
        run = ready[turn % len(ready)]
        try:
            self._advance(run, child)
        except Crash:
            if not self._process.alive:
                raise
            self.die(child)

    def keep_times(self) -> None:
        """Kill the children of runs that are past their time limit."""
        now = self._world.clock.true_ms
        for child, runs in enumerate(self.children):
            if any(run.ends_ms is not None and run.ends_ms <= now for run in runs):
                self.die(child)

    def die(self, child: int) -> None:
        """Let the child die, and another take its place."""
        runs, self.children[child] = self.children[child], []
        if not runs:
            return
        overdue = tuple(run.job for run in runs if run.stage is Stage.HANGING)
        not_started = tuple(run.job for run in runs if run.stage is Stage.GIVEN)
        started = tuple(
            run.job for run in runs if run.job not in overdue and run.job not in not_started
        )
        names = ", ".join(run.name for run in runs)
        self._world.note(self._process, f"loses child {child} with {names}")
        self._told.append(ChildDied(1 + child, "killed", started, not_started, overdue))

    def _advance(self, run: SimulatedRun, child: int) -> None:
        job, effect = run.job, run.handler.effect
        match run.stage:
            case Stage.GIVEN:
                run.stage = Stage.STARTED
                self._told.append(Started(job.request_id, job.generation))
                self._note(run, "starts" if not job.asks else "asks the counterparty")
                if not job.asks:
                    run.may_have_acted = effect is EffectKind.EXTERNAL
                    self._world.watch.started(run)
            case Stage.STARTED if job.asks:
                self._finish(run, child, self._ask(run))
            case Stage.STARTED if job.collapses and not self._applies(job):
                self._finish(run, child, Outcome(State.SKIPPED, code=NOT_APPLICABLE))
            case Stage.STARTED if effect is EffectKind.TRANSACTIONAL:
                self._finish(run, child, self._transact(run))
            case Stage.STARTED if not run.act.has_effect:
                self._finish(run, child, self._judge(run))
            case Stage.STARTED if effect is EffectKind.MARKED:
                run.stage = Stage.ASKING
                run.may_have_acted = True
                self._told.append(EffectAsked(job.request_id, job.generation))
                self._note(run, "asks for its effect")
            case Stage.ASKING if run.refused:
                self._finish(run, child, STALE)
            case Stage.STARTED | Stage.ASKING | Stage.ENTERED:
                self._act(run, child)
            case Stage.DONE if run.act is Act.HANGS:
                run.stage = Stage.HANGING
                run.ends_ms = self._world.clock.true_ms + int(1000 * (job.time_limit_s or 0))
                self._note(run, "hangs")
            case Stage.DONE:
                self._finish(run, child, self._judge(run))

    def _applies(self, job: Job) -> bool:
        return self._world.plan_of(job.request_id).applies

    def _act(self, run: SimulatedRun, child: int) -> None:
        self._note(run, "charges the card")
        # Who parks what is in doubt needs no key at the counterparty, and may have none.
        is_keyed = run.handler.in_doubt is not InDoubtPolicy.PARK
        bank, before = self._world.bank, self._world.bank.charges[run.job.request_id]
        try:
            bank.charge(run.key, is_keyed=is_keyed, idempotent=run.is_idempotent)
        except KeyRefused as error:
            self._finish(
                run,
                child,
                judge_error(error, handler=run.handler, effect_granted=run.granted),
            )
        else:
            run.has_charged = bank.charges[run.job.request_id] > before
            run.stage = Stage.DONE

    def _ask(self, run: SimulatedRun) -> Outcome:
        bank, plan = self._world.bank, self._world.plan_of(run.job.request_id)
        if bank.knows(run.key):
            return judge_answer(Happened(), max_result_bytes=MAX_RESULT_BYTES)
        if plan.voids:
            bank.void(run.key)
            return judge_answer(Voided(), max_result_bytes=MAX_RESULT_BYTES)
        return judge_answer(Unknown("not yet"), max_result_bytes=MAX_RESULT_BYTES)

    def _judge(self, run: SimulatedRun) -> Outcome:
        error = run.raised()
        if error is None:
            return judge_return(None, max_result_bytes=MAX_RESULT_BYTES)
        return judge_error(error, handler=run.handler, effect_granted=run.granted)

    def _transact(self, run: SimulatedRun) -> Outcome:
        work: Callable[[object], Outcome] = lambda connection: self._judge(run)  # noqa: E731
        return self._transactional.run(run.job, work)

    def _finish(self, run: SimulatedRun, child: int, outcome: Outcome) -> None:
        if run not in self.children[child]:
            return  # the child was killed while it waited for the database
        self.children[child].remove(run)
        run.may_have_acted &= run.act not in (Act.DECLARES, Act.REJECTS)
        end = "stale" if outcome.stale else "voided" if outcome.voided else str(outcome.state)
        self._note(run, f"ends: {end}")
        self._told.append(Finished(run.job.request_id, run.job.generation, outcome))

    def _note(self, run: SimulatedRun, what: str) -> None:
        self._world.note(self._process, f"child: {run.name} {what}")
