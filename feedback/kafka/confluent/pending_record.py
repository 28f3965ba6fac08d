"""A client's record on its way to Kafka by librdkafka, and its end."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from feedback.clock import monotonic_s
from feedback.errors import SecurityFault
from feedback.kafka.confluent.bounded_topic import RecordShare
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown
from feedback.kafka.sending import Coordinates, tell_of_end

End = Coordinates | RecordNotSent | RecordUnknown


class ConfluentPending:
    """See `feedback.kafka.sending.PendingRecord`. It keeps no producer alive.

    Args:
        topic: where it goes.
        share: what it has of the bytes of its topic that are under way.
        deadline_s: monotonic time until which its result is awaited.
        judge: returns the end for librdkafka's error or message, and the seconds since this was
            made; None where it is told later.
        why: returns the fault of security that was heard since a monotonic time.
    """

    __slots__ = (
        "_began_s",
        "_deadline_s",
        "_end",
        "_is_known",
        "_judge",
        "_tells",
        "_why",
        "share",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        deadline_s: float,
        *,
        share: RecordShare,
        judge: Callable[[ConfluentPending, Any, Any, float], End | None],
        why: Callable[[float], SecurityFault | None],
    ) -> None:
        self.topic, self.share = topic, share
        self._began_s = monotonic_s()
        self._deadline_s = deadline_s
        self._judge = judge
        self._why = why
        self._end: End | None = None
        self._tells: list[Callable[[], None]] = []
        # Held until the end is known: an Event costs more than all else here.
        self._is_known = threading.Lock()
        self._is_known.acquire()

    def hear(self, error: Any, message: Any) -> None:
        """Hear librdkafka's word, in the thread that serves it."""
        # One that was told already may be heard of once more.
        if self._end is None:
            end = self._judge(self, error, message, monotonic_s() - self._began_s)
            if end is not None:
                self.finish(end)

    def finish(self, end: End) -> None:
        """Tell its end, for good: a later one counts nothing."""
        if self._end is not None:
            return
        # Before anybody hears of it, and may send the next one.
        self.share.leave()
        self._end = end
        self._is_known.release()
        if self._tells:
            # Whatever one raises, the thread goes on for the records of others.
            self._tell(BaseException)

    def _tell(self, contained: type[BaseException]) -> None:
        # Whoever takes one out calls it: the thread that adds it, or the one that ends the record.
        while self._tells:
            with suppress(IndexError):
                tell_of_end(self._tells.pop(), contained=contained)

    def is_settled(self, wait_s: float) -> bool:
        """Whether its result is known, waiting for it at most so long."""
        if self._end is None and wait_s > 0 and self._is_known.acquire(timeout=wait_s):
            self._is_known.release()
        return self._end is not None

    def result(self) -> Coordinates:
        """Return the record's coordinates, waiting no longer than `send_timeout_s` after the send.

        Raises:
            RecordNotSent: the broker refused it.
            RecordUnknown: nobody answered in time, or the connection broke.
        """
        if not self.is_settled(self._deadline_s - monotonic_s()):
            found = self._why(self._began_s)
            said = "no answer in time" if found is None else found.said
            raise RecordUnknown(f"Kafka did not acknowledge: {said}").because(found)
        if isinstance(self._end, Coordinates):
            return self._end
        assert self._end is not None
        raise self._end

    def when_known(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in a thread of the producer, when `result` returns at once."""
        self._tells.append(tell)
        if self._end is not None:
            # An interrupt is of the caller's own thread.
            self._tell(Exception)

    async def ending(self) -> Coordinates:
        """Return `result`, for callers that may block."""
        return self.result()

    def take_back(self) -> bool:
        """Say that a record that was handed over cannot be taken back."""
        return False
