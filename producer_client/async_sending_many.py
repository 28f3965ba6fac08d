"""Sends many requests from a task: Redis gets one batch while Kafka takes the one before."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable

from feedback.clock import monotonic_s
from producer_client.flights import (
    BATCHES_IN_FLIGHT,
    CATCH_UP_S,
    Flight,
    batch_size,
    land,
    launch,
)
from producer_client.submission import SendResult, Submission
from producer_client.way import SendFlow

AsyncSource = AsyncIterable[Submission | None] | Iterable[Submission | None]


async def send_many(
    way: SendFlow, submissions: AsyncSource, *, rate: float | None
) -> AsyncIterator[SendResult]:
    """Send many requests, yielding each one's result; see `AsyncClient.send_many`."""
    flying: deque[Flight] = deque()
    size = batch_size(rate)
    due_s = monotonic_s()
    batch: list[Submission] = []
    source = _one_by_one(submissions)
    fault: Exception | None = None
    is_over = False
    while not is_over:
        try:
            submission = await anext(source)
            if submission is not None:
                batch.append(submission)
            is_pause = submission is None
        except StopAsyncIteration:
            is_over = is_pause = True
        except Exception as error:  # the source's own error: earlier requests are sent first
            fault, is_over, is_pause = error, True, True
        if len(batch) < size and not is_pause:
            continue
        count = len(batch)
        if batch:
            flying.append(await launch(way, batch))
            batch = []
        # A source that pauses leaves time to wait for all results.
        most = 0 if rate or is_pause else BATCHES_IN_FLIGHT - 1
        while len(flying) > most:
            for result in await land(way, flying.popleft()):
                yield result
        if rate:
            # Counted from one due time to the next, so that late wake-ups do not add up.
            due_s = max(due_s + count / rate, monotonic_s() - CATCH_UP_S)
            await asyncio.sleep(max(0.0, due_s - monotonic_s()))
    if fault is not None:
        raise fault


async def _one_by_one(submissions: AsyncSource) -> AsyncIterator[Submission | None]:
    if isinstance(submissions, AsyncIterable):
        async for one in submissions:
            yield one
    else:
        for one in submissions:
            yield one
