"""Following requests to their end: one, resending it where that helps, or many at once."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from feedback.clock import monotonic_s
from feedback.errors import NotSent, RedisUnavailable, SendUnknown, WaitTimeout
from feedback.events import EventListener, Watch
from feedback.kept import KeptPayload
from feedback.settings import ClientSection
from feedback.status import FINAL, State
from feedback.statuses import Status
from feedback.store import StatusStore
from producer_client.resending import Step, next_step
from producer_client.sending import Sending

# Of many requests so many are listened for; the others are looked at when one of these has ended.
SENTINELS = 16
# And in any case this often, since a sentinel may be the slowest of its neighbours.
MANY_POLL_S = 0.25


@dataclass(slots=True)
class Pursuit:
    """One request that is waited for.

    Attributes:
        payload: what a resend needs; None: what is kept in Redis.
        deadline_at: epoch ms, should its status be gone.
        last_send_s: monotonic time of the last sending, or of the beginning of the wait.
        resending: the resend that is under way.
        fault: what a resend ended with that ends the wait.
    """

    request_id: str
    payload: KeptPayload | None
    deadline_at: int | None
    last_send_s: float
    resends: int = 0
    resending: threading.Thread | None = None
    fault: BaseException | None = None


class Following:
    """Waits for final statuses. Safe to share between threads.

    Args:
        section: how often to poll and to resend.
        store: where statuses are read.
        events: hears that they changed.
        sending: sends again.
    """

    def __init__(
        self, section: ClientSection, store: StatusStore, events: EventListener, sending: Sending
    ) -> None:
        self._section = section
        self._store = store
        self._events = events
        self._sending = sending

    def one(self, pursuit: Pursuit, *, timeout_s: float | None, resend: bool) -> Status:
        """Return the final status; see `Client.wait`."""
        began_s = monotonic_s()
        with self._events.watch([pursuit.request_id]) as watch:
            while True:
                left_s = _left_s(began_s, timeout_s)
                status = self._look(pursuit.request_id, last_chance=left_s == 0)
                if status is not None and status.state in FINAL:
                    return status
                if left_s == 0:
                    state = State.UNKNOWN if status is None else status.state
                    raise WaitTimeout(pursuit.request_id, state, monotonic_s() - began_s)
                if resend and status is not None:
                    self._pursue(pursuit, status)
                self._pause(watch, self._section.poll_interval_s, left_s)

    def many(self, request_ids: Iterable[str], *, timeout_s: float | None) -> Iterator[Status]:
        """Yield the final status of each request as it ends; see `Client.wait_many`."""
        open_ids = list(dict.fromkeys(request_ids))
        began_s = monotonic_s()
        while open_ids:
            sentinels = choose_sentinels(open_ids, SENTINELS)
            with self._events.watch(sentinels, states=FINAL) as watch:
                # Looked at after they are listened for, so that no end falls in between.
                ended = self._which_ended(sentinels)
                while True:
                    yield from self._take_ended(open_ids, up_to_last(open_ids, ended))
                    if not open_ids or set(sentinels).isdisjoint(open_ids):
                        break
                    left_s = _left_s(began_s, timeout_s)
                    if left_s == 0:
                        yield from self._take_ended(open_ids, list(open_ids))
                        self._give_up(open_ids, began_s)
                    longest_s = min(self._section.poll_interval_s, MANY_POLL_S)
                    # Nothing heard in all that time: a look at all of them.
                    ended = self._pause(watch, longest_s, left_s) or set(open_ids)

    def _which_ended(self, request_ids: Sequence[str]) -> set[str]:
        statuses = self._store.read_many(request_ids)
        return {status.request_id for status in statuses if status.state in FINAL}

    def _take_ended(self, open_ids: list[str], looked_at: Sequence[str]) -> Iterator[Status]:
        """Yield which of `looked_at` have ended, and take them out of `open_ids`."""
        statuses = self._store.read_many(looked_at)
        ended = {one.request_id: one for one in statuses if one.state in FINAL}
        open_ids[:] = [request_id for request_id in open_ids if request_id not in ended]
        yield from ended.values()

    def _give_up(self, open_ids: Sequence[str], began_s: float) -> None:
        if open_ids:
            status = self._store.read(open_ids[0])
            raise WaitTimeout(open_ids[0], status.state, monotonic_s() - began_s)

    def _look(self, request_id: str, *, last_chance: bool) -> Status | None:
        try:
            return self._store.read(request_id)
        except RedisUnavailable:
            if last_chance:
                raise
            return None

    def _pause(self, watch: Watch, longest_s: float, left_s: float | None) -> set[str]:
        return watch.wait(longest_s if left_s is None else min(longest_s, left_s))

    def _pursue(self, pursuit: Pursuit, status: Status) -> None:
        if pursuit.fault is not None:
            raise pursuit.fault
        if pursuit.resending is not None and pursuit.resending.is_alive():
            return
        step = next_step(
            status.state,
            since_send_s=monotonic_s() - pursuit.last_send_s,
            resends=pursuit.resends,
            resend_after_s=self._section.resend_after_s,
        )
        if step is Step.RESEND:
            pursuit.resending = threading.Thread(
                target=self._resend, args=(pursuit, status), name="onceward-resend", daemon=True
            )
            pursuit.resending.start()

    def _resend(self, pursuit: Pursuit, status: Status) -> None:
        """Send again, in a thread of its own: Kafka away would hold up the wait past its end."""
        try:
            payload = pursuit.payload or self._store.kept_payload(pursuit.request_id)
            if payload is not None:
                self._sending.again(
                    pursuit.request_id, payload, known=status, deadline_at=pursuit.deadline_at
                )
                pursuit.resends += 1
        except (NotSent, SendUnknown, RedisUnavailable):
            pass  # the next round tries again, the status says what is true
        except BaseException as error:  # told by the wait: nobody else looks at this thread
            pursuit.fault = error
        pursuit.last_send_s = monotonic_s()


def choose_sentinels(open_ids: Sequence[str], most: int) -> list[str]:
    """Return at most `most` ids, evenly spread and with the last among them; all when they fit.

    Requests end roughly in the order they were sent, so the end of one tells when a look at its
    neighbours pays; listening for each would cost more than reading its status.
    """
    if len(open_ids) <= most:
        return list(open_ids)
    return [open_ids[(at + 1) * len(open_ids) // most - 1] for at in range(most)]


def up_to_last(open_ids: Sequence[str], ended: Collection[str]) -> Sequence[str]:
    """Return the ids up to the last one that has ended: those before it probably have, too."""
    last = next((at for at in reversed(range(len(open_ids))) if open_ids[at] in ended), -1)
    return open_ids[: last + 1]


def _left_s(began_s: float, timeout_s: float | None) -> float | None:
    return None if timeout_s is None else max(0.0, began_s + timeout_s - monotonic_s())
