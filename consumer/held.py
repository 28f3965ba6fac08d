"""What a worker has taken on and not yet finished in the journal."""

from __future__ import annotations

from dataclasses import dataclass, field

from consumer.delivery import Delivery, RefusedRecord
from consumer.entries import Run, finish, in_doubt
from consumer.journal import EffectMark, Finish
from consumer.pool import ChildDied, ChildFailed, EffectAsked, Event, Finished, Job, Outcome
from feedback.logs import EventLog

log = EventLog("onceward.worker")


@dataclass(slots=True)
class Held:
    """The requests in the worker's hands, by what happens to them next.

    Attributes:
        claiming: taken from the buffer; a claim is to be written.
        refusing: records that break the contract; their rows are to be written.
        running: claimed, dispatched, and not yet finished in the journal.
        effects: runs that wait at their effect for the journal.
        finishes: ends that the journal does not have yet.
        committed: ends that a child wrote with its transaction; only to be told.
    """

    claiming: list[Delivery] = field(default_factory=list)
    refusing: list[RefusedRecord] = field(default_factory=list)
    running: dict[Run, Delivery] = field(default_factory=dict)
    effects: dict[Run, EffectMark] = field(default_factory=dict)
    finishes: dict[Run, Finish] = field(default_factory=dict)
    committed: list[tuple[Delivery, Finish]] = field(default_factory=list)

    @property
    def idle(self) -> bool:
        """Whether nothing is claimed, running, or waiting to be written."""
        return not (self.running or self.claiming or self.refusing or self.finishes)

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
            case _:
                log.debug("pool.event", kind=type(event).__name__)

    def _finished(self, run: Run, outcome: Outcome) -> None:
        if outcome.stale:
            self.running.pop(run, None)
        elif outcome.committed:
            delivery = self.running.pop(run, None)
            if delivery is not None:
                self.committed.append((delivery, finish(run, outcome)))
        else:
            self.finishes[run] = finish(run, outcome)

    def _bury(self, death: ChildDied) -> None:
        log.warning(
            "child.died",
            pid=death.pid,
            reason=death.reason,
            started=len(death.started),
            not_started=len(death.not_started),
        )
        for job in death.started:
            self._end_in_doubt(job, f"its process was {death.reason}")
        for job in death.not_started:
            # No child acknowledged it, so it has not begun: claimed again, it is still ours.
            delivery = self.running.pop((job.request_id, job.generation), None)
            if delivery is not None:
                self.claiming.append(delivery)

    def _end_in_doubt(self, job: Job, why: str) -> None:
        run = (job.request_id, job.generation)
        self.effects.pop(run, None)
        self.finishes[run] = in_doubt(job, why)
