"""The jobs of one child, and how far each is by the child's reports."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from consumer.pool.events import EffectAsked, Event, Finished, Started
from consumer.pool.frames import MalformedFrame
from consumer.pool.handover import HandoverClock
from consumer.pool.job import Job
from consumer.pool.wire import Numbered, Report
from feedback.clock import monotonic_s


class JobsInChild:
    """The jobs that one child holds, by number.

    Args:
        handover: the clock of the jobs that were given and not started.

    Attributes:
        held: all of them, in the order in which they were given.
        given: how many it has ever been given.
        first_end_s: monotonic time at which the first running job is past its time limit.
    """

    def __init__(self, handover: HandoverClock) -> None:
        self.handover = handover
        self.held: dict[int, Job] = {}
        self.given = 0
        self.first_end_s = math.inf
        self._started: set[int] = set()
        self._ends: dict[int, float] = {}
        self._overdue: frozenset[int] = frozenset()
        self._asking: dict[tuple[str, int], int] = {}

    @property
    def running(self) -> int:
        """How many jobs have started and not finished."""
        return len(self._started)

    def enter(self, jobs: Sequence[Job]) -> list[Numbered]:
        """Return the jobs with their numbers; from now on the child may tell of them."""
        numbered = list(enumerate(jobs, self.given + 1))
        self.given += len(jobs)
        self.held.update(numbered)
        self._note(has_started=False)
        return numbered

    def hear(self, report: Report) -> Iterator[Event]:
        """Yield the events of a report.

        Raises:
            MalformedFrame: it tells of a job that the child does not hold.
        """
        try:
            for number in report.started:
                job = self.held[number]
                self._started.add(number)
                if job.time_limit_s is not None:
                    self._limit(number, job.time_limit_s)
                yield Started(job.request_id, job.generation)
            for number in report.asked:
                job = self.held[number]
                self._asking[job.request_id, job.generation] = number
                yield EffectAsked(job.request_id, job.generation)
            for number, outcome in report.finished:
                self._started.remove(number)
                job = self.held.pop(number)
                if self._ends:
                    self._unlimit(number)
                if self._asking:
                    self._asking.pop((job.request_id, job.generation), None)
                yield Finished(job.request_id, job.generation, outcome)
        except KeyError:
            raise MalformedFrame("it tells of a job that it does not hold") from None
        self._note(has_started=bool(report.started))

    def take_asking(self, request_id: str, generation: int) -> int | None:
        """Return the number of the run that waits at its effect; it no longer does."""
        return self._asking.pop((request_id, generation), None)

    def suspect_all(self) -> None:
        """Let every job count as started: the child's reports cannot be read any more."""
        self._started.update(self.held)

    def note_overdue(self, now_s: float) -> bool:
        """Keep which runs are past their time limit; return whether there is one."""
        self._overdue = frozenset(number for number, end_s in self._ends.items() if end_s <= now_s)
        return bool(self._overdue)

    def ends(self) -> tuple[tuple[Job, ...], tuple[Job, ...], tuple[Job, ...]]:
        """Return the jobs that never finished: started, not started, overdue."""
        started, not_started, overdue = [], [], []
        for number, job in self.held.items():
            if number in self._overdue:
                overdue.append(job)
            elif number in self._started:
                started.append(job)
            else:
                not_started.append(job)
        return tuple(started), tuple(not_started), tuple(overdue)

    def _note(self, *, has_started: bool) -> None:
        self.handover.note(held=len(self.held), running=len(self._started), has_started=has_started)

    def _limit(self, number: int, time_limit_s: float) -> None:
        end_s = monotonic_s() + time_limit_s
        self._ends[number] = end_s
        self.first_end_s = min(self.first_end_s, end_s)

    def _unlimit(self, number: int) -> None:
        if self._ends.pop(number, math.inf) <= self.first_end_s:
            self.first_end_s = min(self._ends.values(), default=math.inf)
