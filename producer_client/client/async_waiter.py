"""Follows requests to their end from a task, resending where that helps; see `waiter`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence

from feedback.clock import monotonic_s
from feedback.errors import NotSent, RedisUnavailable, SendUnknown, WaitTimeout
from feedback.redis.async_events import AsyncEventListener
from feedback.redis.async_store import AsyncStatusStore
from feedback.settings.settings import ClientSection
from feedback.statuses import Status
from feedback.tasks import end_tasks
from producer_client.client.timed_reads import in_vain, look_s, part_s, parts_of
from producer_client.client.wait_rules import WaitedRequest, end_of, seconds_left
from producer_client.client.waiter import MANY_POLL_S, is_final
from producer_client.owner import CLOSED, ClientClosed
from producer_client.sending.send_flow import SendFlow


class AsyncWaiter:
    """Waits for final statuses. Belongs to one loop.

    Args:
        section: how often to poll and to resend.
        store: where statuses are read.
        events: reports that statuses have changed.
        way: sends again.
    """

    def __init__(
        self,
        section: ClientSection,
        store: AsyncStatusStore,
        events: AsyncEventListener,
        way: SendFlow,
    ) -> None:
        self._section = section
        self._store = store
        self._events = events
        self._way = way

    async def one(self, waited: WaitedRequest, *, timeout_s: float | None, resend: bool) -> Status:
        """Return the final status; see `AsyncClient.wait`.

        A wait that is cancelled, or over, cancels its resend. That removes nothing: a record that
        Kafka has stays there.
        """
        began_s = monotonic_s()
        resending: asyncio.Task[None] | None = None
        try:
            async with self._events.watch([waited.request_id]) as watch:
                while True:
                    self._require_open()
                    left_s = seconds_left(began_s, timeout_s, now_s=monotonic_s())
                    status = await self._look(waited.request_id, left_s)
                    now_s = monotonic_s()
                    end = end_of(waited, status, began_s=began_s, now_s=now_s, left_s=left_s)
                    if end is not None:
                        return end
                    if resend and status is not None and self._begins(waited, status):
                        resending = asyncio.create_task(
                            self._resend(waited, status), name="onceward-resend"
                        )
                    longest_s = self._section.poll_interval_s
                    left_s = seconds_left(began_s, timeout_s, now_s=monotonic_s())
                    await watch.wait(longest_s if left_s is None else min(longest_s, left_s))
        finally:
            if resending is not None:
                await end_tasks([resending])

    async def changes(self, request_id: str, *, every_s: float) -> AsyncGenerator[Status | None]:
        """Yield the status now and after each change; see `AsyncClient.changes`."""
        async with self._events.watch([request_id]) as watch:
            while True:
                self._require_open()
                try:
                    yield await self._store.read(request_id)
                except RedisUnavailable:
                    yield None
                await watch.wait(every_s)

    async def many(
        self, request_ids: Iterable[str], *, timeout_s: float | None
    ) -> AsyncIterator[Status]:
        """Yield the final status of each request as it ends; see `AsyncClient.wait_many`."""
        open_ids = list(dict.fromkeys(request_ids))
        began_s = monotonic_s()
        if not open_ids:
            return
        async with self._events.watch(open_ids) as watch:
            looked_at = open_ids
            while True:
                self._require_open()
                left_s = seconds_left(began_s, timeout_s, now_s=monotonic_s())
                statuses = await self._read(looked_at, left_s)
                ended = [one for one in statuses if is_final(one)]
                gone = {one.request_id for one in ended}
                open_ids = [one for one in open_ids if one not in gone]
                for one in ended:
                    yield one
                if not open_ids:
                    return
                left_s = seconds_left(began_s, timeout_s, now_s=monotonic_s())
                if left_s == 0 and looked_at == open_ids:
                    raise WaitTimeout(open_ids[0], statuses[0].state, monotonic_s() - began_s)
                longest_s = min(self._section.poll_interval_s, MANY_POLL_S)
                changed = await watch.wait(longest_s if left_s is None else min(longest_s, left_s))
                # No event in all that time, or no time left: read all of them.
                looked_at = [one for one in open_ids if one in changed] if left_s != 0 else open_ids
                looked_at = looked_at or open_ids

    def _require_open(self) -> None:
        if self._events.is_closed:
            raise ClientClosed(CLOSED)

    async def _look(self, request_id: str, left_s: float | None) -> Status | None:
        longest_s = look_s(left_s)
        try:
            async with asyncio.timeout(longest_s):
                return await self._store.read(request_id)
        except (TimeoutError, RedisUnavailable) as error:
            if left_s != 0:
                return None
            if isinstance(error, RedisUnavailable):
                raise
            raise in_vain(longest_s or 0.0) from None

    async def _read(self, request_ids: Sequence[str], left_s: float | None) -> list[Status]:
        found: list[Status] = []
        for part in parts_of(request_ids):
            longest_s = part_s(left_s)
            try:
                async with asyncio.timeout(longest_s):
                    found += await self._store.read_many(part)
            except TimeoutError:
                raise in_vain(longest_s or 0.0) from None
        return found

    def _begins(self, waited: WaitedRequest, status: Status) -> bool:
        after_s = self._section.resend_after_s
        return waited.begins_resend(status, now_s=monotonic_s(), resend_after_s=after_s)

    async def _resend(self, waited: WaitedRequest, status: Status) -> None:
        """Send again, in a task of its own: Kafka away would hold up the wait past its end."""
        is_sent = False
        try:
            payload = waited.payload or await self._store.kept_payload(waited.request_id)
            if payload is not None:
                await self._way.again(
                    waited.request_id,
                    payload,
                    known=status,
                    deadline_at=waited.deadline_at,
                    keeps_payload=waited.payload is not None,
                )
                is_sent = True
        except (NotSent, SendUnknown, RedisUnavailable):
            pass  # the next round tries again; the status is still true
        except Exception as error:  # the wait raises it: nobody else looks at this task
            waited.fault = error
        waited.ended_resend(now_s=monotonic_s(), is_sent=is_sent)
