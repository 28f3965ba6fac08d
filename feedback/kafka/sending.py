"""The clients' senders: single records, and how each send ended.

Single records go by either library. The ordered sender is kafka-python's alone: `abandon` has to
know that nothing goes out any more. A broker in memory has senders of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.durability import Durability
from feedback.kafka.send_errors import RecordNotSent, TopicAway, TopicUnsafe
from feedback.logs import EventLog

log = EventLog("onceward.kafka")
# A record times out inside the producer a moment after its sender has learned it.
CLOSE_GRACE_S = 0.5
CLOSED = "the client is closed: make a new one"


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where Kafka stored a record."""

    topic: str
    partition: int
    offset: int


class Safety(Protocol):
    """Knows which topics keep acknowledged records when a broker dies."""

    def knows(self, topic: str) -> bool:
        """Return whether a topic is known to be safe."""

    def fault(self, topic: str, *, until_s: float) -> str | None:
        """Say why a topic is not safe, None when it is.

        Args:
            until_s: monotonic time until which Kafka may answer.

        Raises:
            KafkaUnavailable: Kafka did not answer.
        """


def require_safe_topic(safety: Safety | None, topic: str, until_s: float) -> None:
    """Return if a topic keeps acknowledged records, or nobody asks for that.

    Args:
        until_s: monotonic time until which Kafka may answer.

    Raises:
        TopicUnsafe: it does not.
        TopicAway: Kafka did not answer.
    """
    if safety is None or safety.knows(topic):
        return
    try:
        fault = safety.fault(topic, until_s=until_s)
    except KafkaUnavailable as error:
        raise TopicAway(str(error)).because(error.fault) from error
    if fault is not None:
        raise TopicUnsafe(fault)


@contextmanager
def locked_until(lock: threading.Lock, until_s: float, *, address: str) -> Iterator[None]:
    """Hold the lock of a sender's connection.

    Args:
        until_s: monotonic time until which it is waited for.
        address: Kafka's, for the error.

    Raises:
        TopicAway: another caller has it for that long.
    """
    if not lock.acquire(timeout=max(0.0, until_s - monotonic_s())):
        raise TopicAway(f"Kafka at {address} is away: no connection in time")
    try:
        yield
    finally:
        lock.release()


def tell_of_end(tell: Callable[[], None], *, contained: type[BaseException] = Exception) -> None:
    """Call a caller's function that hears of the end of its record.

    Args:
        contained: the errors that end here, with a line in the log: those of one caller are none
            of another's. Those of the log end here as well, since the application may filter it.
    """
    try:
        tell()
    except contained as error:
        with suppress(contained):
            log.raised("send.tell_failed", error)


class SendingPlan(NamedTuple):
    """How a sender sends.

    Attributes:
        send_timeout_s: no send waits longer.
        max_request_bytes: the largest record, key and headers included.
        durability: the acknowledgements that a send waits for.
        safety: knows which topics keep acknowledged records; None: that is not asked.
    """

    send_timeout_s: float
    max_request_bytes: int
    durability: Durability
    safety: Safety | None = None


class PendingRecord(Protocol):
    """A record on its way to Kafka, and its end: coordinates, a refusal, or unknown."""

    def is_settled(self, wait_s: float) -> bool:
        """Whether its result is known, waiting for it at most so long."""

    def result(self) -> Coordinates:
        """Return the record's coordinates, waiting no longer than `send_timeout_s` after the send.

        Raises:
            RecordNotSent: the broker refused it.
            RecordUnknown: nobody answered in time, or the connection broke.
        """

    def when_known(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in a thread of the producer, when `result` returns at once.

        An error that it raises is logged, and touches no record.
        """

    async def ending(self) -> Coordinates:
        """Return `result`, for callers that may block."""

    def take_back(self) -> bool:
        """Say that a record that was handed over cannot be taken back."""


class KafkaSender(Protocol):
    """Sends single records; connects at the first, so that no earlier step waits for Kafka."""

    @property
    def address(self) -> str:
        """Kafka's address."""

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> PendingRecord:
        """Hand a record over and return at once when the topic is known.

        Args:
            deadline_s: monotonic time of its end, connecting included, if that is sooner than
                `send_timeout_s` from now.

        Raises:
            TopicAway: Kafka is away, or the topic does not exist.
            OutOfTime: `deadline_s` is over. After a handing over its result could not be learned.
            SenderClosed: this sender is closed.
            TopicUnsafe: the topic may lose acknowledged records.
            TopicForbidden: this user may not write there.
            RecordNotSent: the record is too large, or malformed for Kafka.
        """

    def knows(self, topic: str) -> bool:
        """Return whether a send to the topic would be handed over without asking Kafka."""

    def why_wait(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
    ) -> str | None:
        """Say why a record would wait for earlier ones of its topic; None: it would not.

        When one of those has ended, and before anybody hears of that, the answer may be another.
        """

    def close(self, timeout_s: float | None = None) -> None:
        """Send the records under way and close for good.

        Args:
            timeout_s: how long that may take; None for `send_timeout_s`.
        """


class OrderedSender(KafkaSender, Protocol):
    """Sends in the order given, for a sender that stores its records. Belongs to one thread.

    A record never times out inside it, since the next one of its key would then go first: it tries
    until `abandon`.
    """

    def look_up(self, topics: Collection[str]) -> dict[str, RecordNotSent]:
        """Return the topics to which nothing can be sent now, each with the reason.

        Kafka is asked once for all unknown topics. For all others a `send` waits for nothing.
        """

    def abandon(self) -> None:
        """Let no unacknowledged record go out any more; the next `send` begins anew."""
