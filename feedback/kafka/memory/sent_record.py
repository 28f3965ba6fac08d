"""A client's record on its way to a broker in memory, and its end."""

from __future__ import annotations

import threading
from collections.abc import Callable

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.errors import TopicRefused
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.presence import BrokerState
from feedback.kafka.outgoing import RecordRefused
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown, TopicForbidden
from feedback.kafka.sending import Coordinates, tell_of_end
from feedback.records.envelope import Record


class MemoryPending:
    """See `feedback.kafka.sending.PendingRecord`. Its sender hands it over, with the broker's lock.

    Args:
        record: without an offset.
        deadline_s: monotonic time until which its result is awaited.
        endures: it never times out by itself, and a lost answer is asked for again.
        refusals_are_certain: whether Kafka's refusal is told as one.

    Attributes:
        is_known: its result is.
        is_over: nobody waits for its result any more, and it does not go out any more.
    """

    def __init__(
        self,
        broker: MemoryBroker,
        record: Record,
        *,
        deadline_s: float,
        endures: bool,
        refusals_are_certain: bool,
    ) -> None:
        self._broker = broker
        self._record = record
        self._deadline_s = deadline_s
        self._endures = endures
        self._refusals_are_certain = refusals_are_certain
        self._has_left = False
        self._is_carried_out = False
        self._tells: list[Callable[[], None]] = []
        self._end: Coordinates | RecordNotSent | RecordUnknown = RecordUnknown("")
        self.is_known = False
        self.is_over = False

    @property
    def topic(self) -> str:
        """Where it goes."""
        return self._record.topic

    @property
    def failed(self) -> bool:
        """Whether its result is known, and is an error."""
        return self.is_known and not isinstance(self._end, Coordinates)

    def hand_over(self) -> None:
        """Try to bring it to the broker, and to hear its result."""
        if self.is_known or self.is_over:
            return
        match self._broker.state:
            case BrokerState.STILL:
                if not self._has_left:
                    self._broker.keep(self._arrive)
                self._has_left = True
            case BrokerState.UP | BrokerState.MUTE:
                is_repeated = self._is_carried_out
                self._arrive()
                if is_repeated and self._endures:
                    self._know()
            case BrokerState.DOWN:
                pass

    def _arrive(self) -> None:
        """Be written, once; the answer is heard where the broker answers and somebody waits."""
        if self._is_carried_out:
            return
        self._is_carried_out = True
        try:
            self._broker.known(self._record.topic, "Write")
            stored = self._broker.store(self._record)
            self._end = Coordinates(stored.topic, stored.partition, stored.offset)
        except KafkaUnavailable as error:
            self._end = self._in_words(error)
        self._know()

    def _in_words(self, error: KafkaUnavailable) -> RecordNotSent | RecordUnknown:
        if self._refusals_are_certain:
            if isinstance(error, TopicRefused):
                return TopicForbidden(f"Kafka refused the record: {error}", self.topic).because(
                    error.fault
                )
            if isinstance(error, RecordRefused):
                return RecordNotSent(f"Kafka refused the record: {error}")
        return RecordUnknown(f"Kafka did not acknowledge: {error}").because(error.fault)

    def _know(self) -> None:
        if self._broker.is_up and not self.is_over:
            self.is_known = True
            self._tell()

    def give_up(self) -> None:
        """Let it go out no more, and let nobody wait."""
        with self._broker.changed:
            if not self.is_known:
                self.is_over = True
                self._tell()
            self._broker.changed.notify_all()

    def _tell(self) -> None:
        tells, self._tells = self._tells, []
        for tell in tells:
            tell_of_end(tell)

    @property
    def _left_s(self) -> float:
        """How long its result may be waited for, while the broker is away."""
        return max(0.0, min(self._deadline_s - monotonic_s(), self._broker.longest_wait_s))

    def is_settled(self, wait_s: float) -> bool:
        """Whether its result is known, waiting for it at most so long."""
        with self._broker.changed:
            limit_s = min(wait_s, self._broker.longest_wait_s)
            return self._broker.changed.wait_for(self._has_ended, max(0.0, limit_s))

    def _has_ended(self) -> bool:
        return self.is_known or self.is_over

    def result(self) -> Coordinates:
        """Return the record's coordinates, waiting no longer than `send_timeout_s` after the send.

        Raises:
            RecordNotSent: the broker refused it.
            RecordUnknown: nobody answered in time, or the connection broke.
        """
        with self._broker.changed:
            if not self._broker.changed.wait_for(self._has_ended, self._left_s):
                self._time_out()
            if not self.is_known:
                raise RecordUnknown("Kafka did not acknowledge: no answer in time")
            if isinstance(self._end, Coordinates):
                return self._end
            raise self._end

    def _time_out(self) -> None:
        if not self._endures:
            self.give_up()

    def when_known(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in a thread of the producer, when `result` returns at once."""
        with self._broker.changed:
            if self._has_ended():
                tell_of_end(tell)
                return
            self._tells.append(tell)
            if not self._endures:
                timer = threading.Timer(self._left_s, self._time_out)
                timer.daemon = True
                timer.start()

    async def ending(self) -> Coordinates:
        """Return `result`, for callers that may block."""
        return self.result()

    def take_back(self) -> bool:
        """Say that a record that was handed over cannot be taken back."""
        return False
