"""A record that a task sends, and the room where those of a topic wait for their turns.

Either a thread takes a ticket, or its task takes it back, never both: so a send that ends early
knows whether it was certainly not sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable

from feedback.clock import monotonic_s
from feedback.kafka.send_errors import OutOfTime, RecordNotSent, RecordUnknown, TopicAway
from feedback.kafka.sending import CLOSE_GRACE_S, PendingRecord

# The first ticket of a room learns at its end why the topic is away: those beside it learn it too.
HEARD_S = 0.1


class Ticket:
    """A record on its way from a task to Kafka.

    Args:
        hand_over: gives it to the producer, in a thread.
        why_wait: says why that would wait for earlier records of the topic; None: it would not.
        on_end: called with the topic when a record that was handed over has ended.
        deadline_s: monotonic time until which its outcome is waited for.
        address: Kafka's, for error messages.

    Attributes:
        room: where it waits or has waited; None: it was handed over at once.
    """

    def __init__(
        self,
        topic: str,
        hand_over: Callable[[], PendingRecord],
        *,
        why_wait: Callable[[], str | None],
        on_end: Callable[[str], None],
        deadline_s: float,
        address: str,
    ) -> None:
        self.topic = topic
        self._hand_over = hand_over
        self.why_wait = why_wait
        self._on_end = on_end
        self.room: TopicRoom | None = None
        self._deadline_s = deadline_s
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._is_known = asyncio.Event()
        # Only one of the two gets it: taking from a list is atomic.
        self._to_take = [None]
        self._was_taken_back = False
        self._record: PendingRecord | None = None
        self._error: Exception | None = None

    async def ending(self) -> object:
        """Return when Kafka has the record.

        Raises:
            RecordNotSent: it certainly does not get it, or was not handed over in time.
            RecordUnknown: nobody answered in time, or the connection broke.
        """
        if not await self._known_within(self._deadline_s + HEARD_S - monotonic_s()):
            if self.take_back():
                raise self._out_of_time()
            # A thread may have taken it already: its result comes at once.
            if self._record is None and self._error is None:
                await self._known_within(CLOSE_GRACE_S)
        if self._error is not None:
            raise self._error
        if self._record is None:
            raise RecordUnknown("Kafka did not take the record in time")
        return self._record.result()  # known, or out of time: does not wait

    def _out_of_time(self) -> TopicAway:
        if self.room is not None and self.room.held_up_by is not None:
            return OutOfTime(self.room.held_up_by)
        return TopicAway(f"Kafka at {self._address} was not ready for topic {self.topic!r} in time")

    @property
    def is_taken(self) -> bool:
        """Whether nobody can take it any more."""
        return not self._to_take

    def take_back(self) -> bool:
        """Keep it from being sent; say whether that was still possible."""
        if self._to_take:
            with contextlib.suppress(IndexError):
                self._to_take.pop()
                self._was_taken_back = True
        return self._was_taken_back or isinstance(self._error, RecordNotSent)

    def hand_over(self) -> Exception | None:
        """Give it to the producer, unless taken back; return the error, if any; in a thread."""
        try:
            self._to_take.pop()
        except IndexError:
            return None
        try:
            self._record = self._hand_over()
        except Exception as error:  # the task raises it: nobody looks at this thread
            self._error = error
            self._tell()
            return error
        self._record.when_known(self._tell_end)
        return None

    def refuse(self, error: Exception) -> None:
        """End it with an error, unless it was taken back; in a thread."""
        with contextlib.suppress(IndexError):
            self._to_take.pop()
            self._error = error
            self._tell()

    async def _known_within(self, timeout_s: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, timeout_s)):
                await self._is_known.wait()
        return self._is_known.is_set()

    def _tell_end(self) -> None:
        try:
            self._tell()
        finally:
            # What the loop raises holds up no other record of the topic.
            self._on_end(self.topic)

    def _tell(self) -> None:
        # The loop is closed: nobody waits any more.
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._is_known.set)


class TopicRoom:
    """The tickets of a topic that wait, in their order.

    Attributes:
        held_up_by: why its first record would wait for earlier ones; None: a thread is at work.
        is_called: the one thread is to go on with it.
    """

    def __init__(self) -> None:
        self.tickets: deque[Ticket] = deque()
        self.held_up_by: str | None = None
        self.is_called = False

    def first(self) -> Ticket | None:
        """Return the first ticket that nobody has taken back; None where there is none."""
        while self.tickets and self.tickets[0].is_taken:
            self.tickets.popleft()
        return self.tickets[0] if self.tickets else None

    def refuse(self, error: TopicAway) -> None:
        """Refuse all that wait."""
        while self.tickets:
            self.tickets.popleft().refuse(error)
