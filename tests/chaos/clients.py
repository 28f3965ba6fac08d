"""The clients of a row: they send, see how each request ends, and send what Redis has forgotten.

One thread sends; one hears every change of a status; one looks at what is open each second, since
events are lost when Redis dies. What is LOST or overdue is left to the resender; what is UNKNOWN
is submitted again by its client, as the contract has it (section 4).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

from feedback.clock import monotonic_s
from feedback.errors import OncewardError, RedisUnavailable
from feedback.events import FAULTS
from feedback.logs import EventLog
from feedback.status import State
from feedback.statuses import Status
from producer_client import Client
from producer_client.submission import Submission
from tests.chaos.orders import Kind, Order, hash_of
from tests.chaos.pace import Pace
from tests.chaos.tickets import Ticket, Tickets

log = EventLog("onceward.chaos")

BATCH = 128
ACCOUNTS = 97
SEND_TICK_S = 0.005
AWAY_PAUSE_S = 0.3
HEAR_S = 0.1
LOOK_EVERY_S = 1.0
LOOK_AT_MOST = 2_000
# Its event may still be on its way, or its PENDING.
LOOK_AFTER_S = 1.0
RESUBMIT_EVERY_S = 3.0


class Clients:
    """Sends orders and keeps a ticket for each that Kafka may have.

    Args:
        client: one for all; its resends are not used.
        topics: of each kind.
        orders: in the order of sending, without end.
        patience_s: when for so long no room comes, because nobody is told, nothing more is sent:
            who was not told shows that.
    """

    def __init__(
        self,
        client: Client,
        *,
        topics: Mapping[Kind, str],
        orders: Iterable[Order],
        patience_s: float,
    ) -> None:
        self._client = client
        self._patience_s = patience_s
        self._topics = dict(topics)
        self._orders = iter(orders)
        self._again: deque[Order] = deque()
        self._all = Tickets()
        self._closed = threading.Event()
        self._sending: threading.Thread | None = None
        self._halt = threading.Event()
        self._watchers = [
            threading.Thread(target=run, name=f"chaos-{name}", daemon=True)
            for name, run in (("hear", self._hear), ("look", self._look_on))
        ]

    def __enter__(self) -> Self:
        for watcher in self._watchers:
            watcher.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
        self._closed.set()
        for watcher in self._watchers:
            watcher.join()

    @property
    def tickets(self) -> dict[str, Ticket]:
        """The tickets by request id."""
        return self._all.kept

    @property
    def sent(self) -> int:
        """How many Kafka may have."""
        return len(self._all.kept)

    @property
    def told(self) -> int:
        """How many have a final status."""
        return self._all.told

    @property
    def open_count(self) -> int:
        """How many have none yet."""
        return self._all.open_count

    def told_as(self, state: State) -> list[str]:
        """Return the requests whose first final status was this one."""
        return [one for one, ticket in self.tickets.items() if ticket.told is state]

    # sending -------------------------------------------------------------------------------

    def start(self, pace: Pace, *, most: int | None = None) -> None:
        """Begin to send at this pace, until `stop`, or until so many more were sent."""
        self._halt.clear()
        last = None if most is None else self.sent + most
        self._sending = threading.Thread(
            target=self._send_on, args=(pace, last), name="chaos-send", daemon=True
        )
        self._sending.start()

    def stop(self) -> None:
        """Send nothing more; return when nothing is being sent."""
        self._halt.set()
        self.join()

    def join(self) -> None:
        """Wait until all that were ordered were sent."""
        if self._sending is not None:
            self._sending.join()

    def send(self, orders: Iterable[Order]) -> None:
        """Send these, and return when Kafka may have them all."""
        left = deque(orders)
        while left and not self._closed.is_set():
            left.extend(self._send([left.popleft() for _ in range(min(BATCH, len(left)))]))

    def _send_on(self, pace: Pace, last: int | None) -> None:
        began_s, before = monotonic_s(), self.sent
        told, told_s = self.told, began_s
        while not self._halt.is_set() and (last is None or self.sent < last):
            room = pace.room(
                sent=self.sent - before, open_=self.open_count, elapsed_s=monotonic_s() - began_s
            )
            if last is not None:
                room = min(room, last - self.sent)
            if self.told != told or room > 0:
                told, told_s = self.told, monotonic_s()
            if room <= 0:
                if monotonic_s() - told_s > self._patience_s:
                    log.warning("clients.stuck", open=self.open_count)
                    return
                self._halt.wait(SEND_TICK_S)
                continue
            refused = self._send(list(self._next(min(room, BATCH))))
            self._again.extend(refused)
            if refused:
                self._halt.wait(AWAY_PAUSE_S)

    def _next(self, room: int) -> Iterator[Order]:
        for _ in range(room):
            yield self._again.popleft() if self._again else next(self._orders)

    def _send(self, orders: list[Order]) -> list[Order]:
        """Send a batch; return those that Kafka certainly does not have."""
        now_s = monotonic_s()
        batch = {one.request_id: Ticket(one, now_s) for one in orders}
        self._all.begin(batch)
        sent: set[str] = set()
        try:
            for result in self._client.send_many(self._submission(one) for one in orders):
                if result.sent or result.unknown:
                    sent.add(result.request_id)
        except OncewardError as error:
            # What was not told of before is sent again, under the same id.
            log.warning("batch.broken", reason=str(error), sent=len(sent), of=len(orders))
        self._all.keep(batch, sent)
        return [one for one in orders if one.request_id not in sent]

    def _submission(self, order: Order) -> Submission:
        # As with accounts: requests of one share a partition.
        key = f"account-{hash_of(order.request_id) % ACCOUNTS:02}"
        return Submission(order.body(), key, self._topics[order.kind], order.request_id)

    # seeing --------------------------------------------------------------------------------

    def _hear(self) -> None:
        prefix = self._client.store.events_channel("").removesuffix("{}")
        while not self._closed.is_set():
            try:
                with self._client.store.redis.pubsub() as pubsub:  # type: ignore[no-untyped-call]
                    pubsub.psubscribe(f"{prefix}*")
                    while not self._closed.is_set():
                        message = pubsub.get_message(ignore_subscribe_messages=True, timeout=HEAR_S)
                        if message is not None:
                            name = message["channel"].decode()[len(prefix) + 1 : -1]
                            self._note_heard(name, State(message["data"].decode()))
            except (*FAULTS, RedisUnavailable):
                self._closed.wait(AWAY_PAUSE_S)

    def _note_heard(self, request_id: str, state: State) -> None:
        if state is State.FAILED:  # the event does not say whether a resend may help
            self._note_read(self._client.store.read(request_id))
        else:
            self._all.note(request_id, state)

    def _note_read(self, status: Status) -> None:
        # A failure that a resend may mend is no end: the resender goes on with it.
        if not (status.state is State.FAILED and status.resend):
            self._all.note(status.request_id, status.state)

    def _look_on(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            try:
                self._look()
            except RedisUnavailable:
                continue

    def _look(self) -> None:
        chosen = self._all.take_turn(older_than_s=LOOK_AFTER_S, most=LOOK_AT_MOST)
        for status in self._client.store.read_many(chosen):
            self._note_read(status)
            if status.state is State.UNKNOWN:
                self._resubmit(self.tickets[status.request_id])

    def _resubmit(self, ticket: Ticket) -> None:
        now_s = monotonic_s()
        if now_s - ticket.resubmitted_s >= RESUBMIT_EVERY_S:
            ticket.resubmitted_s = now_s
            # What becomes of it shows at the next look.
            list(self._client.send_many([self._submission(ticket.order)]))
