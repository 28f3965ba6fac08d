"""Follows requests to their end: one, resending it where that helps, or many at once."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial

from feedback.clock import monotonic_s
from feedback.errors import NotSent, RedisUnavailable, SendUnknown, WaitTimeout
from feedback.redis.events import ChangeWatch, EventListener
from feedback.redis.store import StatusStore
from feedback.settings.settings import ClientSection
from feedback.status import FINAL
from feedback.statuses import Status
from producer_client.client.timed_reads import look, look_s, part_s, parts_of
from producer_client.client.wait_rules import WaitedRequest, end_of, seconds_left
from producer_client.owner import CLOSED, ClientClosed
from producer_client.sending.blocking_sends import BlockingSends

# Of many requests, so many are listened for; the others are read when one of these has ended.
SENTINELS = 16
# They are also read this often, since a sentinel may be the slowest of its neighbours.
MANY_POLL_S = 0.25


class Waiter:
    """Waits for final statuses. Safe to share between threads.

    Args:
        section: how often to poll and to resend.
        store: where statuses are read.
        events: reports that statuses have changed.
        sending: sends again.
        redis_s: how long Redis may take to answer.
    """

    def __init__(
        self,
        section: ClientSection,
        store: StatusStore,
        events: EventListener,
        sending: BlockingSends,
        *,
        redis_s: float,
    ) -> None:
        self._section = section
        self._store = store
        self._events = events
        self._sending = sending
        self._redis_s = redis_s

    def one(self, waited: WaitedRequest, *, timeout_s: float | None, resend: bool) -> Status:
        """Return the final status; see `Client.wait`."""
        began_s = monotonic_s()
        # Its way through the worker wakes nobody: each reading is a round trip or two.
        watching = self._events.watch([waited.request_id], states=FINAL, within_s=timeout_s)
        with watching as watch:
            while True:
                self._require_open()
                left_s = _left_s(began_s, timeout_s)
                status = self._look(waited.request_id, left_s)
                now_s = monotonic_s()
                end = end_of(waited, status, began_s=began_s, now_s=now_s, left_s=left_s)
                if end is not None:
                    return end
                if resend and status is not None:
                    self._resend_if_due(waited, status)
                left_s = _left_s(began_s, timeout_s)
                self._pause(watch, self._section.poll_interval_s, left_s)

    def many(self, request_ids: Iterable[str], *, timeout_s: float | None) -> Iterator[Status]:
        """Yield the final status of each request as it ends; see `Client.wait_many`."""
        open_ids = list(dict.fromkeys(request_ids))
        began_s = monotonic_s()
        while open_ids:
            sentinels = choose_sentinels(open_ids, SENTINELS)
            left_s = _left_s(began_s, timeout_s)
            with self._events.watch(sentinels, states=FINAL, within_s=left_s) as watch:
                # Read after the listening has begun, so that no end falls in between.
                ended = {one.request_id for one in self._read(sentinels, left_s) if is_final(one)}
                while True:
                    statuses = self._read(up_to_last(open_ids, ended), left_s)
                    yield from _take_ended(open_ids, statuses)
                    if not open_ids or set(sentinels).isdisjoint(open_ids):
                        break
                    self._require_open()
                    left_s = _left_s(began_s, timeout_s)
                    if left_s == 0:
                        statuses = self._read(list(open_ids), left_s)
                        yield from _take_ended(open_ids, statuses)
                        _give_up(open_ids, statuses, began_s)
                    longest_s = min(self._section.poll_interval_s, MANY_POLL_S)
                    # No event in all that time: read all of them.
                    ended = self._pause(watch, longest_s, left_s) or set(open_ids)
                    left_s = _left_s(began_s, timeout_s)
                    self._require_open()

    def _require_open(self) -> None:
        if self._events.is_closed:
            raise ClientClosed(CLOSED)

    def _read(self, request_ids: Sequence[str], left_s: float | None) -> list[Status]:
        found: list[Status] = []
        for part in parts_of(request_ids):
            call = partial(self._store.read_many, part)
            try:
                found += look(call, longest_s=part_s(left_s), timeout_s=self._redis_s)
            except RedisUnavailable:
                self._require_open()  # a close takes the connection from under its reader
                raise
        return found

    def _look(self, request_id: str, left_s: float | None) -> Status | None:
        try:
            return look(
                lambda: self._store.read(request_id),
                longest_s=look_s(left_s),
                timeout_s=self._redis_s,
            )
        except RedisUnavailable:
            if left_s == 0:
                raise
            return None

    def _pause(self, watch: ChangeWatch, longest_s: float, left_s: float | None) -> set[str]:
        return watch.wait(longest_s if left_s is None else min(longest_s, left_s))

    def _resend_if_due(self, waited: WaitedRequest, status: Status) -> None:
        after_s = self._section.resend_after_s
        if waited.begins_resend(status, now_s=monotonic_s(), resend_after_s=after_s):
            threading.Thread(
                target=self._resend, args=(waited, status), name="onceward-resend", daemon=True
            ).start()

    def _resend(self, waited: WaitedRequest, status: Status) -> None:
        """Send again, in a thread of its own: Kafka away would hold up the wait past its end."""
        is_sent = False
        try:
            payload = waited.payload or self._store.kept_payload(waited.request_id)
            if payload is not None:
                self._sending.again(
                    waited.request_id,
                    payload,
                    known=status,
                    deadline_at=waited.deadline_at,
                    keeps_payload=waited.payload is not None,
                )
                is_sent = True
        except (NotSent, SendUnknown, RedisUnavailable):
            pass  # the next round tries again; the status is still true
        except BaseException as error:  # the wait raises it: nobody else looks at this thread
            waited.fault = error
        waited.ended_resend(now_s=monotonic_s(), is_sent=is_sent)


def choose_sentinels(open_ids: Sequence[str], most: int) -> list[str]:
    """Return at most `most` ids, evenly spread and with the last among them; all when they fit.

    Requests end roughly in the order they were sent. So the end of one shows when to read its
    neighbours; listening for each would cost more than reading its status.
    """
    if len(open_ids) <= most:
        return list(open_ids)
    return [open_ids[(at + 1) * len(open_ids) // most - 1] for at in range(most)]


def up_to_last(open_ids: Sequence[str], ended: Collection[str]) -> Sequence[str]:
    """Return the ids up to the last one that has ended: those before it probably have, too."""
    last = next((at for at in reversed(range(len(open_ids))) if open_ids[at] in ended), -1)
    return open_ids[: last + 1]


def is_final(status: Status) -> bool:
    """Say whether a request has ended."""
    return status.state in FINAL


def _take_ended(open_ids: list[str], statuses: Iterable[Status]) -> Iterator[Status]:
    """Yield the requests that have ended, and remove them from `open_ids`."""
    ended = {one.request_id: one for one in statuses if is_final(one)}
    open_ids[:] = [request_id for request_id in open_ids if request_id not in ended]
    yield from ended.values()


def _give_up(open_ids: Sequence[str], statuses: Iterable[Status], began_s: float) -> None:
    """Raise WaitTimeout for the first request that had not ended at the last reading."""
    for status in statuses:
        if status.request_id in open_ids[:1]:
            raise WaitTimeout(status.request_id, status.state, monotonic_s() - began_s)


def _left_s(began_s: float, timeout_s: float | None) -> float | None:
    return seconds_left(began_s, timeout_s, now_s=monotonic_s())
