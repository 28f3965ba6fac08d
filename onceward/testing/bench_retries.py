"""The retries of a bench: the worker's own decisions, and wake-ups that wait for the test."""

from __future__ import annotations

from collections.abc import Sequence

from consumer.features.retries import next_run
from consumer.handlers.delivery import Delivery
from consumer.journal import Finish
from consumer.loop.feature import Feature
from consumer.loop.settlement import Settlement
from feedback.clock import epoch_ms


class BenchRetries(Feature):
    """Ends failures as RETRYING, and keeps their wake-ups until they are due."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, Delivery]] = []

    def judged(self, finish: Finish, delivery: Delivery) -> Finish:
        """Return how a run is to end: RETRYING, where another one follows by itself."""
        return next_run.ended(finish, delivery, now_ms=epoch_ms())

    def ended(self, one: Settlement) -> None:
        """Keep the wake-up of the next run, whose RETRYING row is committed."""
        if one.due_at is None or one.finish is None:
            return
        comes = next_run.wakeup(one.delivery, one.finish, due_at=one.due_at)
        woken = one.delivery._replace(
            wakes=comes.generation, retried=comes.runs, first_failed_at=comes.first_failed_at
        )
        self._waiting.append((one.due_at, woken))

    def next_in_ms(self) -> int | None:
        """Return in how many milliseconds the next one is due; None without one."""
        dues = [due_at for due_at, _ in self._waiting]
        return max(0, min(dues) - epoch_ms()) if dues else None

    def age(self, by_ms: int) -> None:
        """Let time pass: all that was noted is older by that."""
        self._waiting = [
            (
                due_at - by_ms,
                one._replace(
                    deadline_at=one.deadline_at - by_ms,
                    first_failed_at=one.first_failed_at - by_ms,
                ),
            )
            for due_at, one in self._waiting
        ]

    def take_due(self) -> Sequence[Delivery]:
        """Remove and return those that are due."""
        now_ms = epoch_ms()
        due = [one for due_at, one in self._waiting if due_at <= now_ms]
        self._waiting = [one for one in self._waiting if one[0] > now_ms]
        return due
