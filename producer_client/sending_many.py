"""Sends many requests from a thread: Redis gets one batch while Kafka takes the one before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from feedback.clock import monotonic_s
from producer_client.flights import (
    BATCHES_IN_FLIGHT,
    CATCH_UP_S,
    Flight,
    batch_size,
    land,
    launch,
)
from producer_client.sending import BlockingSends
from producer_client.submission import SendResult, Submission
from producer_client.worlds import at_once

Source = Iterable[Submission | None]


class SendingMany:
    """Sends the submissions of a source, in batches. Safe to share between threads.

    Args:
        sending: sends the batches.
    """

    def __init__(self, sending: BlockingSends) -> None:
        self._way = sending.way

    def many(self, submissions: Source, *, rate: float | None = None) -> Iterator[SendResult]:
        """Send many requests, yielding each one's result; see `Client.send_many`."""
        flying: deque[Flight] = deque()
        due_s = monotonic_s()
        try:
            for batch in _batches(submissions, batch_size(rate)):
                flying.append(self._launch(batch.submissions))
                # A source that pauses leaves time to wait for all results.
                most = 0 if rate or batch.is_last_for_now else BATCHES_IN_FLIGHT - 1
                while len(flying) > most:
                    yield from self._land(flying.popleft())
                if rate:
                    # Counted from one due time to the next, so that late wake-ups do not add up.
                    count = len(batch.submissions)
                    due_s = max(due_s + count / rate, monotonic_s() - CATCH_UP_S)
                    _pace(due_s)
        except Exception:
            # The source of the submissions failed: the results of earlier sends come first.
            for one in flying:
                yield from self._land(one)
            raise
        for one in flying:
            yield from self._land(one)

    def _launch(self, submissions: Sequence[Submission]) -> Flight:
        return at_once(launch(self._way, submissions))

    def _land(self, flight: Flight) -> Iterator[SendResult]:
        yield from at_once(land(self._way, flight))


@dataclass(frozen=True, slots=True)
class _Given:
    submissions: list[Submission]
    is_last_for_now: bool


def _batches(submissions: Source, size: int) -> Iterator[_Given]:
    batch: list[Submission] = []
    try:
        for submission in submissions:
            if submission is not None:
                batch.append(submission)
            if len(batch) == size or submission is None:
                yield _Given(batch, submission is None)
                batch = []
    except Exception:
        # Submissions that were read before the source failed are still sent.
        if batch:
            yield _Given(batch, is_last_for_now=False)
        raise
    if batch:
        yield _Given(batch, is_last_for_now=False)


def _pace(until_s: float) -> None:
    left_s = until_s - monotonic_s()
    if left_s > 0:
        time.sleep(left_s)
