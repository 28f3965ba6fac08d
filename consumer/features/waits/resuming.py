"""Makes a delivery, or a doubt, of a wait record that was taken over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from consumer.features.waits.record import GIVEN_BACK, Wait
from consumer.handlers.checks.waits import declared_by, may_run_again
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import RefusedRecord, receive
from consumer.intake.buffer import Received
from feedback.clock import epoch_ms, monotonic_s
from feedback.errors import RedisUnavailable
from feedback.statuses import Status


class StatusReader(Protocol):
    """The text that clients see."""

    def read(self, request_id: str) -> Status: ...


class Resuming:
    """Makes deliveries of wait records, and says which of them may run.

    Args:
        handlers: those with `delivery="at_least_once"`, by topic.
        statuses: without a journal they alone know of the runs before.
        default_deadline_s: for requests without a deadline, where the handler names none.
        has_journal: whether claims decide on runs: without a journal the handler alone does.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        *,
        statuses: StatusReader,
        default_deadline_s: float,
        has_journal: bool,
    ) -> None:
        self._handlers = handlers
        self._statuses = statuses
        self._default_deadline_s = default_deadline_s
        self._has_journal = has_journal

    def has(self, topic: str | None) -> bool:
        return topic in self._handlers

    def taken(self, wait: Wait, *, worker_id: str, generation: int) -> Wait:
        """Return the record that says that this worker has it from now on."""
        ours = wait._replace(holder=worker_id, generation=generation)
        return declared_by(ours, self._handlers[wait.record.topic])

    def may_run(self, before: Wait) -> bool:
        """Whether a request may run again, or for the first time.

        Args:
            before: as its holder before had it.
        """
        if self._has_journal or before.holder == GIVEN_BACK:
            return True
        return may_run_again(self._handlers[before.record.topic], before)

    def received(self, wait: Wait) -> Received:
        """Return the request as it was read first; a breach of the rules is refused again."""
        received = receive(
            wait.record,
            self._handlers[wait.record.topic],
            default_deadline_s=self._default_deadline_s,
            now_s=monotonic_s(),
            now_ms=epoch_ms(),
        )
        if isinstance(received, RefusedRecord):
            return received
        return received._replace(
            # A record written by hand may name it there alone.
            envelope=received.envelope._replace(request_id=wait.request_id),
            taken=wait.generation,
            deadline_at=wait.expires_at,
            begins_at=1 if self._has_journal else self._next_generation(wait),
        )

    def _next_generation(self, wait: Wait) -> int:
        """Return a generation that its client takes for newer than those of the dead worker."""
        try:
            seen = self._statuses.read(wait.request_id).generation
        except RedisUnavailable:
            seen = 0
        return max(seen + 1, wait.generation)
