"""Tries within one run, in the child: for errors that pass in milliseconds.

They are one run to the journal, under one claim. Only an error that declares that nothing happened
may repeat. Each try begins before the request's deadline and within a short time.
"""

from __future__ import annotations

from random import Random

from consumer.handlers.declaration import Handler
from consumer.handlers.retry_policy import next_delay_ms
from feedback.clock import epoch_ms, monotonic_s

_dice = Random()


class BlockingRetries:
    """How often the handler has been called in this run, and whether once more.

    Args:
        handler: its declaration.
        deadline_at: epoch ms of the request.
    """

    def __init__(self, handler: Handler, deadline_at: int) -> None:
        self._handler = handler
        self._deadline_at = deadline_at
        self._began_s = monotonic_s()
        self._retried = 0

    def pause_s(self) -> float | None:
        """Return how long to wait before the next try; None when there is no other.

        Asked when a try has failed in a way that is declared to have left nothing.
        """
        if self._handler.blocking is None:
            return None
        delay_ms = next_delay_ms(
            self._handler.blocking,
            retried=self._retried,
            # From the beginning of the run: a slow try leaves less time for others.
            failing_ms=int((monotonic_s() - self._began_s) * 1000),
            left_ms=self._deadline_at - epoch_ms(),
            within_ms=int(self._handler.blocking_within_s * 1000),
            random=_dice,
        )
        if delay_ms is None:
            return None
        self._retried += 1
        return delay_ms / 1000
