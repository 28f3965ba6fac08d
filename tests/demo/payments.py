"""The clients: each payment is sent by a thread of its own, which then waits for the end."""

from __future__ import annotations

import statistics
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from feedback.clock import monotonic_s
from producer_client import (
    Client,
    Handle,
    NotSent,
    RedisUnavailable,
    SendUnknown,
    State,
    Status,
    WaitTimeout,
)

ACCOUNTS = 97
AGAIN_AFTER_S = 1.0


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the payments are.

    Attributes:
        total: how many there will be.
        sent: those that Kafka has.
        told: those whose client has a final status, or gave up.
        states: how many of those sent are in each state.
        resent: how often one was sent again, as far as can be seen by now.
        told_each_s: how many were told in each second since the first send.
    """

    total: int
    sent: int
    told: int
    states: Mapping[State, int]
    resent: int
    told_each_s: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Waits:
    """How long clients waited for their end after the send, in seconds."""

    median_s: float
    longest_s: float


class Payments:
    """All payments of a run.

    Args:
        client: shared by all of them.
        records: says how many records the topic was sent; asked by one thread alone.
        ids: their request ids, in the order of sending.
        rate: payments per second.
        tell_within_s: a client that has no final status by then was never told.
    """

    def __init__(
        self,
        client: Client,
        *,
        records: Callable[[], int],
        ids: Sequence[str],
        rate: float,
        tell_within_s: float,
    ) -> None:
        self._client = client
        self._records = records
        self._ids = ids
        self._rate = rate
        self._tell_within_s = tell_within_s
        self._lock = threading.Lock()
        self._begun = 0
        self._ended = 0
        self._resends_told = 0
        self._resent = 0
        self._open: dict[str, float] = {}
        self._waits_s: list[float] = []
        self._told_in_s: Counter[int] = Counter()
        self._started_s = self._ended_s = monotonic_s()
        self.told: dict[str, State | None] = {}
        self.not_sent: list[str] = []
        self.finished = threading.Event()

    def start(self) -> None:
        """Begin to send; `finished` is set when every client was told, or gave up."""
        self._started_s = monotonic_s()
        threading.Thread(target=self._send_all, name="demo-pace", daemon=True).start()

    @property
    def begun(self) -> int:
        """How many clients have begun to send."""
        return self._begun

    @property
    def sending(self) -> bool:
        """Whether some are still to be sent."""
        return self._begun < len(self._ids)

    @property
    def seconds(self) -> float:
        """From the first send until the last client was told."""
        return self._ended_s - self._started_s

    @property
    def waits(self) -> Waits:
        """How long those waited that were told."""
        waits_s = self._waits_s or [0.0]
        return Waits(statistics.median(waits_s), max(waits_s))

    def resent(self) -> int:
        """Return how many records the topic has beyond the first sendings.

        That is exact when nothing is being sent, and behind by what is.
        """
        records = self._records()
        # Read after the records, so that a first sending is never taken for a resend.
        with self._lock:
            return max(0, records - self._begun + len(self.not_sent))

    def progress(self) -> Progress:
        """Return how far they are, asking Redis for those under way, and Kafka for resends."""
        in_topic = self.resent()
        with self._lock:
            open_ids = list(self._open)
            states = Counter(state for state in self.told.values() if state is not None)
            told, resends = len(self.told), self._resends_told
            told_in_s = dict(self._told_in_s)
        try:
            statuses = self._client.store.read_many(open_ids)
        except RedisUnavailable:
            states[State.UNKNOWN] = len(open_ids)
        else:
            states += Counter(one.state for one in statuses)
            resends += sum(max(0, one.attempt - 1) for one in statuses)
        self._resent = max(self._resent, resends, in_topic)
        elapsed_s = int(monotonic_s() - self._started_s)
        return Progress(
            total=len(self._ids),
            sent=told + len(open_ids),
            told=told,
            states=states,
            resent=self._resent,
            told_each_s=tuple(told_in_s.get(second, 0) for second in range(elapsed_s)),
        )

    def _send_all(self) -> None:
        for number, request_id in enumerate(self._ids):
            time.sleep(max(0.0, self._started_s + number / self._rate - monotonic_s()))
            self._begun = number + 1
            name = f"demo-client-{request_id}"
            threading.Thread(target=self._pay, args=(number,), name=name, daemon=True).start()

    def _pay(self, number: int) -> None:
        """Be one client: send, wait, and note what was told."""
        request_id = self._ids[number]
        try:
            handle = self._sent(number)
            if handle is None:
                return
            end: Status | None = None
            try:
                end = handle.wait(timeout_s=self._tell_within_s)
            except (WaitTimeout, RedisUnavailable):
                end = None  # never told; the verdict names it
            finally:
                self._note_told(request_id, end)
        finally:
            self._note_end()

    def _sent(self, number: int) -> Handle | None:
        """Send until Kafka has it: the same id again is harmless. None when it never had it."""
        request_id = self._ids[number]
        account = f"account-{number % ACCOUNTS:02}"
        payment = {"account": account, "amount_cents": 100 + number % 9900}
        give_up_s = monotonic_s() + self._tell_within_s
        perhaps_sent = False
        while monotonic_s() < give_up_s:
            try:
                handle = self._client.send(payment, key=account, request_id=request_id)
            except SendUnknown:
                perhaps_sent = True
            except NotSent:
                pass  # no trace is left of this attempt
            else:
                with self._lock:
                    self._open[request_id] = monotonic_s()
                return handle
            time.sleep(AGAIN_AFTER_S)
        with self._lock:
            if perhaps_sent:
                self.told[request_id] = None
            else:
                self.not_sent.append(request_id)
        return None

    def _note_told(self, request_id: str, end: Status | None) -> None:
        now_s = monotonic_s()
        with self._lock:
            sent_s = self._open.pop(request_id)
            self.told[request_id] = None if end is None else end.state
            self._ended_s = now_s
            if end is not None:
                self._resends_told += max(0, end.attempt - 1)
                self._waits_s.append(now_s - sent_s)
                self._told_in_s[int(now_s - self._started_s)] += 1

    def _note_end(self) -> None:
        with self._lock:
            self._ended += 1
            if self._ended == len(self._ids):
                self.finished.set()
