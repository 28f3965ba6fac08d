"""Sends many requests, a batch at a time, for threads (`sync_bridge.each`) and for asyncio.

A batch is launched when Redis has it and Kafka is taking it, landed when all its results are known.
Redis gets one batch while Kafka takes the one before.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from feedback.clock import monotonic_s
from feedback.errors import InvalidMessage, NotSent, OncewardError
from producer_client.owner import CLOSED
from producer_client.sending.send_flow import Handed, SendFlow
from producer_client.sending.send_rules import certain
from producer_client.sending.under_way import Counting
from producer_client.submission import Prepared, SendResult, Submission

BATCH = 128
BATCHES_IN_FLIGHT = 4
# A paced sending may catch up by so much when it is late.
CATCH_UP_S = 0.5

Source = AsyncIterable[Submission | None] | Iterable[Submission | None]


@dataclass(slots=True)
class LaunchedBatch:
    """One batch under way; `places` are the indexes in `results` of the records in `handed`."""

    results: list[SendResult | None]
    places: list[int]
    handed: list[Handed]


async def send_many(
    way: SendFlow,
    submissions: Source,
    *,
    rate: float | None,
    sleep: Callable[[float], Awaitable[None]],
    counting: Counting,
) -> AsyncGenerator[SendResult]:
    """Send many requests, yielding each one's result; see `Client.send_many`.

    Args:
        counting: each launch with the landings after it is a call of the client, for which its
            closing waits. Between them only the caller's code runs, for as long as it likes.
    """
    under_way: deque[LaunchedBatch] = deque()
    due_s = monotonic_s()
    fault: Exception | None = None
    try:
        async with aclosing(_read_batches(submissions, batch_size(rate))) as batches:
            async for batch in batches:
                with counting:
                    launched = await launch_batch(way, batch.submissions, is_open=counting.is_open)
                    under_way.append(launched)
                    # A source that pauses leaves time to wait for all results. In a closed client
                    # the next moment may be too late to take back what was not sent.
                    is_last = bool(rate) or batch.is_last_for_now or not counting.is_open
                    landed = await _land_all_but(
                        0 if is_last else BATCHES_IN_FLIGHT - 1, way, under_way
                    )
                for result in landed:
                    yield result
                if rate:
                    # Counted from one due time to the next, so that late wake-ups do not add up.
                    count = len(batch.submissions)
                    due_s = max(due_s + count / rate, monotonic_s() - CATCH_UP_S)
                    await sleep(max(0.0, due_s - monotonic_s()))
    except Exception as error:  # of the source: the results of earlier sends come first
        fault = error
    with counting:
        landed = await _land_all_but(0, way, under_way)
    for result in landed:
        yield result
    if fault is not None:
        raise fault


@dataclass(frozen=True, slots=True)
class _ReadBatch:
    submissions: list[Submission]
    is_last_for_now: bool


async def _read_batches(submissions: Source, size: int) -> AsyncGenerator[_ReadBatch]:
    batch: list[Submission] = []
    try:
        async with aclosing(_one_by_one(submissions)) as source:
            async for submission in source:
                if submission is not None:
                    batch.append(submission)
                if len(batch) == size or submission is None:
                    yield _ReadBatch(batch, submission is None)
                    batch = []
    except Exception:
        # Submissions that were read before the source failed are still sent.
        if batch:
            yield _ReadBatch(batch, is_last_for_now=False)
        raise
    if batch:
        yield _ReadBatch(batch, is_last_for_now=False)


async def _one_by_one(submissions: Source) -> AsyncGenerator[Submission | None]:
    if isinstance(submissions, AsyncIterable):
        async for one in submissions:
            yield one
    else:
        for one in submissions:
            yield one


async def launch_batch(
    way: SendFlow, submissions: Sequence[Submission], *, is_open: bool = True
) -> LaunchedBatch:
    """Write PENDING for a batch, hand it to Kafka; requests that cannot be sent have results.

    Args:
        is_open: False: the client is closed, and no server is asked any more.
    """
    results: list[SendResult | None] = []
    batch: list[Prepared] = []
    for submission in submissions:
        try:
            batch.append(way.prepare(submission))
            results.append(None)
        except InvalidMessage as error:
            results.append(SendResult(submission.request_id or "", error))
    announced: Sequence[Prepared | OncewardError | None]
    if is_open:
        announced = await way.announce_each(batch) if batch else []
    else:
        announced = [certain(one, NotSent(one.request_id, CLOSED)) for one in batch]
    places = [at for at, result in enumerate(results) if result is None]
    to_send: list[Prepared] = []
    send_places: list[int] = []
    for at, one, told in zip(places, batch, announced, strict=True):
        if isinstance(told, Prepared):
            to_send.append(told)
            send_places.append(at)
        else:
            results[at] = SendResult(one.request_id, told)
    return LaunchedBatch(results, send_places, way.hand_over(to_send))


async def _land_all_but(
    most: int, way: SendFlow, under_way: deque[LaunchedBatch]
) -> list[SendResult]:
    landed: list[SendResult] = []
    while len(under_way) > most:
        landed += await land(way, under_way.popleft())
    return landed


async def land(way: SendFlow, launched: LaunchedBatch) -> list[SendResult]:
    """Return the results of a batch, in its order."""
    for at, (one, record) in zip(launched.places, launched.handed, strict=True):
        try:
            launched.results[at] = SendResult(one.request_id, await way.outcome(one, record))
        finally:
            way.settled(one)
    landed = [result for result in launched.results if result is not None]
    assert len(landed) == len(launched.results)
    return landed


def batch_size(rate: float | None) -> int:
    """Return how many are sent together: with a rate, a fiftieth of a second's requests."""
    return BATCH if rate is None else max(1, min(BATCH, int(rate / 50)))
