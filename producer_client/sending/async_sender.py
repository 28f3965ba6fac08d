"""Hands records to Kafka from tasks: kafka-python blocks, so threads of our own wait for it.

Theory of operation. A record becomes a `Ticket` in the queue of one thread, which hands it to the
`KafkaSender`. The producer's own thread reports to the loop when Kafka has it. The one thread never
waits. For a topic that is not known yet, or away, it makes a room with a queue, opened by one of a
few other threads. The first ticket's result there is that of the tickets behind it. A room is held
up whose first record would wait for earlier ones of its topic. No thread waits for it: the end of
one of those lets the one thread go on with it. So however many tasks send, there are at most
`ROOMS` + 1 threads beside the producer's, the order of a topic is preserved, and no topic that is
away or held up delays another.
"""

from __future__ import annotations

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from feedback.clock import monotonic_s
from feedback.kafka.send_errors import OutOfTime, SenderClosed, TopicAway
from feedback.kafka.sending import CLOSED, KafkaSender, PendingRecord
from producer_client.sending.ticket import Ticket, TopicRoom

# At most so many topics that are away are waited for at the same time.
ROOMS = 4


class AsyncSender:
    """Hands records to Kafka without ever blocking the loop. Belongs to one loop.

    Args:
        sender: connects, and makes the deliveries.
        send_timeout_s: no send waits longer.
    """

    def __init__(self, sender: KafkaSender, *, send_timeout_s: float) -> None:
        self._sender = sender
        self._timeout_s = send_timeout_s
        # A topic's name: its room is to go on.
        self._tickets: queue.SimpleQueue[Ticket | str | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._rooms: dict[str, TopicRoom] = {}
        self._lock = threading.Lock()
        self._openers = ThreadPoolExecutor(ROOMS, thread_name_prefix="onceward-topics")
        self._is_closed = False
        self._tell_closed: Callable[[], object] = lambda: None

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> Ticket:
        """Put a record into the queue and return at once.

        Args:
            deadline_s: monotonic time of its end, if that is sooner than `send_timeout_s`.

        Raises:
            SenderClosed: this sender is closed.
        """
        if self._is_closed:
            raise SenderClosed(CLOSED)
        latest_s = monotonic_s() + self._timeout_s
        until_s = latest_s if deadline_s is None else min(latest_s, deadline_s)

        def hand_over() -> PendingRecord:
            return self._sender.send(
                topic, key=key, value=value, headers=headers, deadline_s=until_s
            )

        def why_wait() -> str | None:
            return self._sender.why_wait(topic, key=key, value=value, headers=headers)

        ticket = Ticket(
            topic,
            hand_over,
            why_wait=why_wait,
            on_end=self._call,
            deadline_s=until_s,
            address=self._sender.address,
        )
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="onceward-kafka", daemon=True)
            self._thread.start()
        self._tickets.put(ticket)
        return ticket

    async def aclose(self) -> None:
        """Send the records under way, within `send_timeout_s`, and close for good."""
        self._is_closed = True
        if self._thread is None:
            self._close()  # nothing was sent: there is no connection to wait for
            return
        is_closed = asyncio.Event()
        loop = asyncio.get_running_loop()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(is_closed.set)

        # The thread that hands over closes: an interpreter that ends lets no new one begin.
        self._tell_closed = tell
        self._tickets.put(None)
        await is_closed.wait()
        self._thread.join()

    def _close(self) -> None:
        self._sender.close()
        self._openers.shutdown()
        with self._lock:
            rooms = [*self._rooms.values()]
            self._rooms.clear()
        for room in rooms:
            room.refuse(SenderClosed(CLOSED))

    def _run(self) -> None:
        try:
            while (given := self._tickets.get()) is not None:
                if isinstance(given, Ticket):
                    self._pass_on(given)
                else:
                    self._go_on(given)
            self._close()
        finally:
            self._tell_closed()

    def _pass_on(self, ticket: Ticket) -> None:
        try:
            if not self._has_to_wait(ticket):
                ticket.hand_over()
        except (KeyError, RuntimeError) as error:
            # The metadata changed during the call, or there is no thread left: only this ticket
            # fails, and its task gets the error.
            ticket.refuse(_failed(ticket.topic, error))

    def _has_to_wait(self, ticket: Ticket) -> bool:
        """Put a ticket into its topic's room, if there is a room or has to be one."""
        topic = ticket.topic
        with self._lock:
            room = self._rooms.get(topic)
            if room is None:
                if not self._sender.knows(topic):
                    room = TopicRoom()
                    # It waits for our lock.
                    self._openers.submit(self._open, topic, room)
                    self._rooms[topic] = room
                elif ticket.why_wait() is None:
                    return False
                else:
                    # What ends from now on finds the room.
                    room = self._rooms[topic] = TopicRoom()
                    room.held_up_by = ticket.why_wait()
                    if room.held_up_by is None:
                        del self._rooms[topic]
                        return False
            room.tickets.append(ticket)
            ticket.room = room
            return True

    def _call(self, topic: str) -> None:
        """Let the one thread go on with a topic of which a record has ended, if it is held up."""
        if topic not in self._rooms:
            return
        with self._lock:
            room = self._rooms.get(topic)
            if room is None or room.held_up_by is None or room.is_called:
                return
            room.is_called = True
        self._tickets.put(topic)

    def _go_on(self, topic: str) -> None:
        """Hand over the records of a room that was held up, up to the next one that waits."""
        while True:
            with self._lock:
                room = self._rooms.get(topic)
                if room is None or room.held_up_by is None:
                    return
                room.is_called = False
                if room.first() is not None and not self._sender.knows(topic):
                    room.held_up_by = None
                    try:
                        self._openers.submit(self._open, topic, room)
                    except RuntimeError as error:
                        del self._rooms[topic]
                        room.refuse(_failed(topic, error))
                    return
                ticket = self._next(topic, room)
            if ticket is None:
                return
            try:
                ticket.hand_over()
            except (KeyError, RuntimeError) as error:
                ticket.refuse(_failed(topic, error))

    def _open(self, topic: str, room: TopicRoom) -> None:
        while True:
            with self._lock:
                if self._rooms.get(topic) is not room:
                    # Its thread could not be started, and comes when the room is another's.
                    return
                ticket = self._next(topic, room)
            if ticket is None:
                return
            error = ticket.hand_over()
            if isinstance(error, TopicAway) and not isinstance(error, OutOfTime):
                with self._lock:
                    room.refuse(error)

    def _next(self, topic: str, room: TopicRoom) -> Ticket | None:
        """Take a room's next ticket; None: the room is gone, or held up. With the lock."""
        ticket = room.first()
        if ticket is None:
            del self._rooms[topic]
            return None
        reason = ticket.why_wait()
        if reason is not None:
            room.held_up_by = reason
            return None
        return room.tickets.popleft()


def _failed(topic: str, error: Exception) -> TopicAway:
    return TopicAway(f"topic {topic!r}: {type(error).__name__} {error}")
