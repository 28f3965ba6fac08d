"""The clients of a row: each pursues an order, and acts on what it is told (`after_word`).

One thread sends; one hears every change of a status; one looks at what is open each second, since
events are lost when Redis dies; one asks again. After NotSent, FAILED and EXPIRED an order is asked
for under a new id, as real callers do. Where nobody could say, and where Redis has forgotten it
(UNKNOWN), it is asked for under the same. What is LOST every other client leaves to the resender,
and all of them what is overdue.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import Self

from feedback.clock import monotonic_s
from feedback.errors import OncewardError, RedisUnavailable
from feedback.logs import EventLog
from feedback.redis.events import FAULTS
from feedback.status import State
from producer_client import Client, NotSent
from producer_client.submission import Submission
from tests.chaos.after_word import Due, Then, Word, pause_s, then_after
from tests.chaos.orders import Order, hash_of, topic_of
from tests.chaos.pace import Pace
from tests.chaos.tickets import Ticket, Tickets

log = EventLog("onceward.chaos")

BATCH = 128
ACCOUNTS = 97
SEND_TICK_S = 0.005
PURSUE_TICK_S = 0.05
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
        topics: the prefix of their names.
        orders: in the order of sending, without end.
        patience_s: when for so long no room comes, because nobody is told, nothing more is sent:
            who was not told shows that.
    """

    def __init__(
        self,
        client: Client,
        *,
        topics: str,
        orders: Iterable[Order],
        patience_s: float,
    ) -> None:
        self._client = client
        self._patience_s = patience_s
        self._topics = topics
        self._orders = iter(orders)
        self._ordered = 0
        self._due = Due()
        self._all = Tickets()
        self._closed = threading.Event()
        self._sending: threading.Thread | None = None
        self._halt = threading.Event()
        self._resting = threading.Event()
        self._pursuing = threading.Thread(target=self._pursue_on, name="chaos-pursue", daemon=True)
        self._watchers = [
            threading.Thread(target=run, name=f"chaos-{name}", daemon=True)
            for name, run in (
                ("hear", self._hear),
                ("look", self._look_on),
            )
        ]

    def __enter__(self) -> Self:
        for thread in (*self._watchers, self._pursuing):
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.rest()
        self._closed.set()
        for watcher in self._watchers:
            watcher.join()

    @property
    def tickets(self) -> dict[str, Ticket]:
        """The tickets by request id."""
        return self._all.kept

    @property
    def not_sent(self) -> dict[str, float]:
        """The ids that a client was told are nowhere, and when."""
        return self._all.not_sent

    @property
    def over(self) -> dict[str, float]:
        """The requests of which a client was told that nothing happened, and when."""
        return self._all.over

    @property
    def ordered(self) -> int:
        """How many orders there are."""
        return self._ordered

    @property
    def sent(self) -> int:
        """How many requests Kafka may have."""
        return len(self._all.kept)

    @property
    def told(self) -> int:
        """How many requests have a final status."""
        return self._all.told

    @property
    def open_count(self) -> int:
        """How many have none yet, or are about to be asked for again."""
        return self._all.open_count + len(self._due)

    def told_as(self, state: State) -> list[str]:
        """Return the requests whose first final status was this one."""
        return [one for one, ticket in self.tickets.items() if ticket.told is state]

    # sending -------------------------------------------------------------------------------

    def start(self, pace: Pace, *, most: int | None = None) -> None:
        """Begin to order at this pace, until `stop`, or until so many more were ordered."""
        self._halt.clear()
        last = None if most is None else self._ordered + most
        self._sending = threading.Thread(
            target=self._send_on, args=(pace, last), name="chaos-send", daemon=True
        )
        self._sending.start()

    def stop(self) -> None:
        """Order nothing more; return when nothing new is being sent. What there is is pursued."""
        self._halt.set()
        self.join()

    def join(self) -> None:
        """Wait until all that were ordered were sent."""
        if self._sending is not None:
            self._sending.join()

    def send(self, orders: Iterable[Order]) -> None:
        """Send these; what cannot be sent is pursued as any other."""
        left = deque(orders)
        self._ordered += len(left)
        while left and not self._closed.is_set():
            self._send([left.popleft() for _ in range(min(BATCH, len(left)))])

    def take_over(self, order: Order, *, sent_s: float, error: OncewardError | None = None) -> None:
        """Pursue an order that somebody else has begun to send.

        Args:
            sent_s: monotonic, when that began.
            error: what it was told; None: sent.
        """
        self._ordered += order.asked == 1
        ticket = Ticket(order, sent_s, is_unknown=error is not None)
        self._all.begin({order.request_id: ticket})
        not_sent = {order.request_id} if isinstance(error, NotSent) else set()
        self._all.keep({order.request_id: ticket}, not_sent=not_sent)
        if not_sent:
            self._go_on(order, Word.NOT_SENT)

    def keep(self, request_id: str, ticket: Ticket) -> None:
        """Keep the ticket of an order that somebody else sends and pursues, under this id."""
        self._ordered += 1
        self._all.keep({request_id: ticket}, not_sent=())

    def _send_on(self, pace: Pace, last: int | None) -> None:
        began_s, before = monotonic_s(), self._ordered
        told, told_s = self.told, began_s
        while not self._halt.is_set() and (last is None or self._ordered < last):
            room = pace.room(
                sent=self._ordered - before,
                open_=self.open_count,
                elapsed_s=monotonic_s() - began_s,
            )
            if last is not None:
                room = min(room, last - self._ordered)
            if self.told != told or room > 0:
                told, told_s = self.told, monotonic_s()
            if room <= 0:
                if monotonic_s() - told_s > self._patience_s:
                    log.warning("clients.stuck", open=self.open_count)
                    return
                self._halt.wait(SEND_TICK_S)
                continue
            orders = list(islice(self._orders, min(room, BATCH)))
            self._ordered += len(orders)
            if self._send(orders):
                self._halt.wait(AWAY_PAUSE_S)

    def _send(self, orders: list[Order]) -> int:
        """Send a batch under new ids; return how many of it were not sent."""
        now_s = monotonic_s()
        batch = {one.request_id: Ticket(one, now_s, is_unknown=True) for one in orders}
        self._all.begin(batch)
        not_sent = set()
        for request_id, error in self._results(orders):
            batch[request_id].is_unknown = error is not None
            if isinstance(error, NotSent):
                not_sent.add(request_id)
        self._all.keep(batch, not_sent=not_sent)
        for request_id in not_sent:
            self._go_on(batch[request_id].order, Word.NOT_SENT)
        return len(not_sent)

    def _results(self, orders: list[Order]) -> Iterator[tuple[str, OncewardError | None]]:
        try:
            for result in self._client.send_many(self.submission(one) for one in orders):
                yield result.request_id, result.error
        except OncewardError as error:
            # What was not told of may be anywhere.
            log.warning("batch.broken", reason=str(error), of=len(orders))

    def _go_on(self, order: Order, word: Word | State) -> None:
        if then_after(word, asked=order.asked) is Then.NEW_ID:
            self._due.add(order.anew(), after_s=pause_s(order.asked))

    def _pursue_on(self) -> None:
        while not self._resting.wait(PURSUE_TICK_S):
            due = self._due.take(BATCH)
            new = [one for one in due if one.request_id not in self.tickets]
            if new:
                self._send(new)
            if len(new) < len(due):
                self._send_again([one for one in due if one.request_id in self.tickets])
            self._due.done()

    def _send_again(self, orders: list[Order]) -> None:
        """Send requests again under the same ids: whatever that says, an earlier one may be out."""
        open_ids = self._all.begin_again(one.request_id for one in orders)
        try:
            for request_id, error in self._results(
                [one for one in orders if one.request_id in open_ids]
            ):
                if error is None:
                    self.tickets[request_id].is_unknown = False
        finally:
            self._all.end_again(open_ids)

    def rest(self) -> None:
        """Ask for nothing again from now on; return when nothing is being sent."""
        self.stop()
        self._resting.set()
        self._pursuing.join()

    def submission(self, order: Order) -> Submission:
        """Return what is sent for an order."""
        return submission_of(order, self._topics)

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

    def _note_heard(self, request_id: str, state: State, *, tries: int = 0) -> None:
        ticket = self._all.note(request_id, state, tries=tries)
        if ticket is not None:
            self._go_on(ticket.order, state)

    def _look_on(self) -> None:
        while not self._closed.wait(LOOK_EVERY_S):
            try:
                self._look()
            except RedisUnavailable:
                continue

    def _look(self) -> None:
        chosen = self._all.take_turn(older_than_s=LOOK_AFTER_S, most=LOOK_AT_MOST)
        for status in self._client.store.read_many(list(chosen)):
            tries = chosen[status.request_id]
            self._note_heard(status.request_id, status.state, tries=tries)
            ticket = self.tickets[status.request_id]
            if ticket.told is None and self._is_due_again(ticket, status.state):
                ticket.resubmitted_s = monotonic_s()
                self._due.add(ticket.order, after_s=0.0)

    def _is_due_again(self, ticket: Ticket, state: State) -> bool:
        if monotonic_s() - ticket.resubmitted_s < RESUBMIT_EVERY_S:
            return False
        if state is State.LOST and hash_of(ticket.order.name) % 2:
            return False  # this client leaves it to the resender
        word = Word.SEND_UNKNOWN if ticket.is_unknown else state
        return then_after(word, asked=ticket.order.asked) is Then.SAME_ID


def submission_of(order: Order, topics: str) -> Submission:
    """Return what is sent for an order.

    Args:
        topics: the prefix of their names.
    """
    # As with accounts: requests of one share a partition.
    key = f"account-{hash_of(order.name) % ACCOUNTS:02}"
    return Submission(order.body(), key, topic_of(topics, order.kind), order.request_id)
