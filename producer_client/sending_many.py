"""The way of many sends: Redis is told one batch while Kafka takes the one before."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from feedback.clock import monotonic_s
from feedback.errors import InvalidMessage, NotSent, SendUnknown
from producer_client.sending import Handed, Sending
from producer_client.submission import Prepared, SendResult, Submission

BATCH = 128
BATCHES_IN_FLIGHT = 4
# How late a paced sending may be and still make it good by sending faster.
CATCH_UP_S = 0.5

Source = Iterable[Submission | None]


class SendingMany:
    """Sends what a source gives, in batches. Safe to share between threads.

    Args:
        sending: sends the batches.
    """

    def __init__(self, sending: Sending) -> None:
        self._sending = sending

    def many(self, submissions: Source, *, rate: float | None = None) -> Iterator[SendResult]:
        """Send many requests, yielding what became of each; see `Client.send_many`."""
        flying: deque[_Batch] = deque()
        due_s = monotonic_s()
        try:
            for batch in _batches(submissions, _batch_size(rate)):
                flying.append(self._launch(batch.submissions))
                # A source that pauses leaves time to hear what became of all.
                most = 0 if rate or batch.is_last_for_now else BATCHES_IN_FLIGHT - 1
                while len(flying) > most:
                    yield from self._land(flying.popleft())
                if rate:
                    # From one due time to the next, so that waking up late does not add up.
                    count = len(batch.submissions)
                    due_s = max(due_s + count / rate, monotonic_s() - CATCH_UP_S)
                    _pace(due_s)
        except Exception:
            # The source of the submissions failed: what was sent before is told first.
            for one in flying:
                yield from self._land(one)
            raise
        for one in flying:
            yield from self._land(one)

    def _launch(self, submissions: Sequence[Submission]) -> _Batch:
        results: list[SendResult | None] = []
        batch: list[Prepared] = []
        for submission in submissions:
            try:
                batch.append(self._sending.prepare(submission))
                results.append(None)
            except InvalidMessage as error:
                results.append(SendResult(submission.request_id or "", error))
        try:
            announced = self._sending.announce(batch) if batch else []
        except (NotSent, SendUnknown) as error:
            announced = [type(error)(one.request_id, error.reason) for one in batch]
        places = [at for at, result in enumerate(results) if result is None]
        to_send: list[Prepared] = []
        send_places: list[int] = []
        for at, one, told in zip(places, batch, announced, strict=True):
            if isinstance(told, Prepared):
                to_send.append(told)
                send_places.append(at)
            else:
                results[at] = SendResult(one.request_id, told)
        return _Batch(results, send_places, self._sending.hand_over(to_send))

    def _land(self, batch: _Batch) -> Iterator[SendResult]:
        for at, (one, record) in zip(batch.places, batch.handed, strict=True):
            batch.results[at] = SendResult(one.request_id, self._sending.outcome(one, record))
        for result in batch.results:
            assert result is not None
            yield result


@dataclass(slots=True)
class _Batch:
    results: list[SendResult | None]
    places: list[int]
    handed: list[Handed]


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
        # What was read before the source failed is sent all the same.
        if batch:
            yield _Given(batch, is_last_for_now=False)
        raise
    if batch:
        yield _Given(batch, is_last_for_now=False)


def _pace(until_s: float) -> None:
    left_s = until_s - monotonic_s()
    if left_s > 0:
        time.sleep(left_s)


def _batch_size(rate: float | None) -> int:
    return BATCH if rate is None else max(1, min(BATCH, int(rate / 50)))
