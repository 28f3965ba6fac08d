"""The clients' producer: sends single records, and reports how each send ended.

kafka-python's producer retries without end and has no memory bound. So its delivery timeout is
`send_timeout_s`, and callers bound the records in flight. By default it is not the idempotent one:
a duplicate by its retries is a resend like any other, answered by the journal, and one request in
flight for each broker preserves the order. The idempotent producer of 3.0.12 never sends again
after a sent record has timed out (its producer id is reset and not asked for again). So after an
unknown outcome it is replaced; otherwise a broker that stalls for `send_timeout_s` would end the
client.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from kafka import KafkaProducer
from kafka.errors import (
    AuthorizationError,
    InvalidRecordError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
    TopicAuthorizationFailedError,
)
from kafka.net.compat import KafkaNetClient
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.util import ensure_valid_topic_name

import feedback.kafka.records
import feedback.kafka.sockets  # noqa: F401 - both mend kafka-python for this process
from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.durability import PLAIN, Durability
from feedback.kafka.failures import why_lost
from feedback.kafka.topic_safety import TopicSafety
from feedback.settings.settings import KafkaSection

# A record times out inside the producer a moment after its sender has learned it.
CLOSE_GRACE_S = 0.5
# How long one connection attempt of an `OrderedSender` takes.
CONNECT_S = 10.0

ABANDON_S = 2.0
_FOR_EVER_MS = 2**31 - 1

CLOSED = "the client is closed: make a new one"

# A broker that answers with one of these has not stored the record.
_CERTAINLY_REFUSED = (
    InvalidRecordError,
    InvalidTopicError,
    MessageSizeTooLargeError,
    PolicyViolationError,
    RecordListTooLargeError,
)


class RecordNotSent(KafkaUnavailable):
    """The record certainly did not reach Kafka."""


class TopicAway(RecordNotSent):
    """Kafka or the topic is away: the next record would only wait as long."""


class KafkaAway(TopicAway):
    """No broker answers: no topic can be reached now."""


class SenderClosed(TopicAway):
    """No server is away: the caller has closed its client."""


class OutOfTime(TopicAway):
    """Earlier records took all of its time: Kafka may be there."""


class TopicUnsafe(RecordNotSent):
    """The topic may lose acknowledged records, and the client asked for one that does not."""


class TopicUnknown(TopicAway):
    """Kafka answers, and knows no such topic."""


class TopicForbidden(RecordNotSent):
    """This user may not write there: a person has to allow it.

    Args:
        reason: Kafka's answer.
        topic: where; None for everywhere. An idempotent producer raises it for other topics as
            well.
    """

    def __init__(self, reason: str, topic: str | None) -> None:
        super().__init__(reason)
        self.topic = topic


class RecordUnknown(KafkaUnavailable):
    """The record may or may not be in Kafka."""


@dataclass(frozen=True, slots=True)
class Coordinates:
    """Where Kafka stored a record."""

    topic: str
    partition: int
    offset: int


class PendingRecord:
    """A record on its way to Kafka.

    Args:
        future: kafka-python's.
        deadline_s: monotonic time until which its result is awaited.
        on_unknown: called when its result is not known.
        refusals_are_certain: whether Kafka's refusal is of this record. An idempotent producer ends
            all its records with one record's refusal, even those under way, and takes nothing more.
    """

    def __init__(
        self,
        future: Any,
        deadline_s: float,
        on_unknown: Callable[[], None] = lambda: None,
        *,
        refusals_are_certain: bool = True,
    ) -> None:
        self._future = future
        self._deadline_s = deadline_s
        self._on_unknown = on_unknown
        self._refusals_are_certain = refusals_are_certain

    def is_settled(self, wait_s: float) -> bool:
        """Whether its result is known, waiting for it at most so long."""
        if not self._future.is_done and wait_s > 0:
            with contextlib.suppress(KafkaError):
                self._future.get(timeout=wait_s)
        return bool(self._future.is_done)

    def result(self) -> Coordinates:
        """Return the record's coordinates, waiting no longer than `send_timeout_s` after the send.

        Raises:
            RecordNotSent: the broker refused it.
            RecordUnknown: nobody answered in time, or the connection broke.
        """
        left_s = self._deadline_s - monotonic_s()
        try:
            if left_s <= 0 and not self._future.is_done:
                raise KafkaTimeoutError("no answer in time")
            stored = self._future.get(timeout=max(0.001, left_s))
        except KafkaError as error:
            refusal = _refusal(error) if self._refusals_are_certain else None
            if refusal is not None:
                raise refusal from error
            self._on_unknown()
            raise RecordUnknown(f"Kafka did not acknowledge: {_in_words(error)}") from error
        return Coordinates(stored.topic, stored.partition, stored.offset)

    def when_known(self, tell: Callable[[], None]) -> None:
        """Call `tell`, in a thread of the producer, when `result` returns at once."""
        self._future.add_callback(lambda stored: tell())
        self._future.add_errback(lambda error: tell())

    async def ending(self) -> Coordinates:
        """Return `result`, for callers that may block."""
        return self.result()

    def take_back(self) -> bool:
        """Say that a record that was handed over cannot be taken back."""
        return False


class KafkaSender:
    """A producer that is made at the first send, so that no earlier step waits for Kafka.

    Args:
        settings: brokers and security.
        send_timeout_s: no send waits longer, neither here nor inside the producer.
        max_request_bytes: the largest record, key and headers included.
        durability: the acknowledgements that a send waits for.
    """

    def __init__(
        self,
        settings: KafkaSection,
        *,
        send_timeout_s: float,
        max_request_bytes: int,
        durability: Durability = PLAIN,
    ) -> None:
        self._settings = settings
        self._timeout_s = send_timeout_s
        # How long a topic without metadata may delay a `send`.
        self._block_s = send_timeout_s
        self._max_request_bytes = max_request_bytes
        self._durability = durability
        self._safety: TopicSafety | None = None
        # Every topic has at least one replica in sync: its leader.
        if durability.min_insync > 1:
            self._safety = TopicSafety(settings, at_least=durability.min_insync)
        self._producer: KafkaProducer | None = None
        self._closings: list[threading.Thread] = []
        self._is_closed = False
        self._lock = threading.Lock()

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: list[tuple[str, bytes]],
        deadline_s: float | None = None,
    ) -> PendingRecord:
        """Hand a record to the producer and return at once when the topic is known.

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
        now_s = monotonic_s()
        latest_s = now_s + self._timeout_s
        deadline_s = latest_s if deadline_s is None else min(latest_s, deadline_s)
        if deadline_s <= now_s:
            raise OutOfTime("no time was left to hand it to Kafka")
        producer = self._connected(deadline_s)
        asked_s = monotonic_s()
        try:
            if producer._metadata.partitions_for_topic(topic) is None:
                # kafka-python would wait for the topic as long as for a whole send.
                left_s = min(self._block_s, deadline_s - asked_s)
                producer._wait_on_metadata(topic, max(0, int(left_s * 1000)))
            if self._safety is not None and not self._safety.knows(topic):
                self._require_safe(self._safety, topic, deadline_s)
            future = producer.send(topic, key=key, value=value, headers=headers)
        except MessageSizeTooLargeError as error:
            limit = self._max_request_bytes
            raise RecordNotSent(f"the record is larger than {limit} bytes") from error
        except KafkaError as error:
            why = _refusal(error) or self._why_no_metadata(producer, topic, asked_s)
            raise why from error
        except (ValueError, TypeError) as error:
            raise RecordNotSent(str(error)) from error
        return PendingRecord(
            future,
            deadline_s,
            lambda: self._replace(producer),
            refusals_are_certain=not self._durability.is_idempotent,
        )

    @property
    def address(self) -> str:
        """Kafka's address."""
        return self._settings.bootstrap_servers

    def knows(self, topic: str) -> bool:
        """Return whether a send to the topic would be handed over without waiting."""
        producer = self._producer
        if producer is None or producer._metadata.partitions_for_topic(topic) is None:
            return False
        return self._safety is None or self._safety.knows(topic)

    def _require_safe(self, safety: TopicSafety, topic: str, deadline_s: float) -> None:
        try:
            fault = safety.fault(topic, until_s=deadline_s)
        except KafkaUnavailable as error:
            raise TopicAway(str(error)) from error
        if fault is not None:
            raise TopicUnsafe(fault)

    def _replace(self, producer: KafkaProducer) -> None:
        """Let the next send make a new producer: this idempotent one is of no use any more."""
        if not self._durability.is_idempotent or self._producer is not producer:
            return  # without the lock: its owner may be connecting already
        with self._lock:
            if self._producer is not producer:
                return
            self._producer = None
            # Its other records have until then, and their senders learn their results.
            closing = threading.Thread(
                target=_close,
                args=(producer, self._timeout_s + CLOSE_GRACE_S),
                name="onceward-closing",
                daemon=True,
            )
            self._closings = [one for one in self._closings if one.is_alive()] + [closing]
            closing.start()

    def _connected(self, deadline_s: float) -> KafkaProducer:
        if self._producer is not None:
            return self._producer
        # The first thread connects; the others wait for it no longer than for Kafka itself.
        with self._locked_until(deadline_s):
            if self._was_closed():
                raise SenderClosed(CLOSED)
            if self._producer is None:
                producer = self._connect(deadline_s)
                if self._was_closed():
                    producer.close(timeout=0)
                    raise SenderClosed(CLOSED)
                self._producer = producer
            return self._producer

    def _was_closed(self) -> bool:
        # A closing that waited long enough for the lock goes on without it.
        return self._is_closed

    @contextlib.contextmanager
    def _locked_until(self, deadline_s: float) -> Iterator[None]:
        if not self._lock.acquire(timeout=max(0.0, deadline_s - monotonic_s())):
            raise TopicAway(self._away("no connection in time"))
        try:
            yield
        finally:
            self._lock.release()

    def _connect(self, deadline_s: float) -> KafkaProducer:
        timeout_ms = int(self._timeout_s * 1000)
        network: list[KafkaNetClient] = []

        def connect(**given: Any) -> KafkaNetClient:
            network.append(KafkaNetClient(**given))
            return network[0]

        try:
            return KafkaProducer(
                **self._settings.connection(),
                kafka_client=connect,
                **self._delivery(timeout_ms),
                bootstrap_timeout_ms=max(1, int((deadline_s - monotonic_s()) * 1000)),
                max_request_size=self._max_request_bytes,
                linger_ms=self._durability.linger_ms,
                batch_size=65_536,
                allow_auto_create_topics=False,
                metrics_enabled=False,
                reconnect_backoff_max_ms=1000,
            )
        except (KafkaError, ValueError, OSError) as error:
            # A producer whose constructor fails leaves its sockets open.
            for one in network:
                one.close()
            if isinstance(error, KafkaError):
                raise KafkaAway(self._away(_in_words(error))) from error
            # For example an invalid address, or a certificate that cannot be read.
            raise TopicAway(f"the [kafka] settings do not work: {error}") from error

    def _delivery(self, timeout_ms: int) -> dict[str, Any]:
        """Return kafka-python's options for acknowledgements and retries."""
        return {
            "acks": self._durability.acks,
            "enable_idempotence": self._durability.is_idempotent,
            "max_in_flight_requests_per_connection": self._durability.in_flight,
            "delivery_timeout_ms": timeout_ms,
            "request_timeout_ms": max(100, timeout_ms - 100),
            "max_block_ms": int(self._block_s * 1000),
        }

    def _why_no_metadata(self, producer: KafkaProducer, topic: str, asked_s: float) -> TopicAway:
        # kafka-python raises the same error for both; no public call says whether Kafka answered.
        if producer._metadata._last_successful_refresh_ms >= asked_s * 1000:
            where = self._settings.bootstrap_servers
            return TopicUnknown(f"Kafka at {where} knows no topic {topic!r}")
        reason = why_lost(producer._metadata._manager._net, since_s=asked_s)
        return TopicAway(self._away(reason or "it does not answer"))

    def _away(self, why: str) -> str:
        return f"Kafka at {self._settings.bootstrap_servers} is away: {why}"

    def close(self, timeout_s: float | None = None) -> None:
        """Send the records under way and close for good.

        Args:
            timeout_s: how long that may take; None for `send_timeout_s`.
        """
        longest_s = self._timeout_s + CLOSE_GRACE_S if timeout_s is None else timeout_s
        # Another thread may be connecting, for as long as a send may take.
        is_mine = self._lock.acquire(timeout=longest_s)
        producer, self._producer, self._is_closed = self._producer, None, True
        if is_mine:
            self._lock.release()
        until_s = monotonic_s() + longest_s
        if producer is not None:
            _close(producer, longest_s)
        for closing in self._closings:
            closing.join(max(0.0, until_s - monotonic_s()))


class OrderedSender(KafkaSender):
    """Sends in the order given, for a sender that stores its records: the idempotent producer.

    A record never times out inside it, since the next one of its key would then go first: it tries
    until `abandon`. Belongs to one thread.

    Args:
        settings: brokers and security.
        send_timeout_s: how long `PendingRecord.result` waits.
        block_s: how long Kafka may take to return the metadata of topics.
        request_timeout_s: after which a request is sent again; Kafka recognises it by its number.
    """

    def __init__(
        self,
        settings: KafkaSection,
        *,
        send_timeout_s: float,
        block_s: float = 1.0,
        request_timeout_s: float = 10.0,
    ) -> None:
        # The broker's limit is the one that counts, and it refuses that one record alone.
        super().__init__(settings, send_timeout_s=send_timeout_s, max_request_bytes=2**30)
        self._block_s = block_s
        self._request_timeout_s = request_timeout_s

    def _connected(self, deadline_s: float) -> KafkaProducer:
        # A short attempt raises while Kafka is away, and is repeated: a watchdog watches its
        # caller.
        return super()._connected(min(deadline_s, monotonic_s() + CONNECT_S))

    def _delivery(self, timeout_ms: int) -> dict[str, Any]:
        return {
            "acks": "all",
            "enable_idempotence": True,
            "max_in_flight_requests_per_connection": 1,
            "delivery_timeout_ms": _FOR_EVER_MS,
            "request_timeout_ms": int(self._request_timeout_s * 1000),
            "max_block_ms": int(self._block_s * 1000),
        }

    def look_up(self, topics: Collection[str]) -> dict[str, RecordNotSent]:
        """Return the topics to which nothing can be sent now, each with the reason.

        Kafka is asked once for all unknown topics, and has `block_s` to answer. For all others a
        `send` waits for nothing.
        """
        if all(map(self.knows, topics)):
            return {}
        try:
            producer = self._connected(monotonic_s() + self._timeout_s)
        except TopicAway as error:
            return dict.fromkeys(topics, error)
        refused: dict[str, RecordNotSent] = {}
        for topic in topics:
            if not self.knows(topic):
                refused[topic] = TopicUnknown(f"Kafka at {self.address} knows no topic {topic!r}")
                try:
                    ensure_valid_topic_name(topic)
                except ValueError as error:
                    refused[topic] = RecordNotSent(str(error))
        asked = [topic for topic, why in refused.items() if isinstance(why, TopicUnknown)]
        has_answered = self._ask(producer, asked)
        for topic in asked:
            if self.knows(topic):
                del refused[topic]
            elif not has_answered:
                refused[topic] = TopicAway(self._away("it does not answer"))
            elif topic in producer._metadata.unauthorized_topics:
                refused[topic] = _forbidden(TopicAuthorizationFailedError(topic))
        return refused

    def _ask(self, producer: KafkaProducer, topics: Collection[str]) -> bool:
        """Ask Kafka for topics; return whether it has answered."""
        metadata = producer._metadata
        until_s = monotonic_s() + self._block_s
        for topic in topics:
            producer._sender.add_topic(topic)
        # The first answer may be that to an earlier question.
        for _ in range(2):
            asked_ms = metadata._last_successful_refresh_ms
            while metadata._last_successful_refresh_ms == asked_ms:
                heard = threading.Event()
                # It fails as well if the only topic does not exist.
                metadata.request_update().add_both(lambda _, heard=heard: heard.set())
                producer._sender.wakeup()
                if not heard.wait(max(0.0, until_s - monotonic_s())):
                    return False
            unknown = [topic for topic in topics if not self.knows(topic)]
            if not unknown:
                return True
        # kafka-python would go on asking, ten times a second. A new set, since its thread reads the
        # old one.
        metadata._topics = metadata._topics.difference(unknown)
        return True

    def abandon(self) -> None:
        """Let no unacknowledged record go out any more; the next `send` begins anew."""
        producer, self._producer = self._producer, None
        if producer is None:
            return
        # Its own closing waits for its records. If that takes too long it leaves its thread
        # sending: an exception comes before the thread is stopped.
        producer._sender.force_close()
        producer._sender.join(ABANDON_S)
        with contextlib.suppress(KafkaTimeoutError):
            producer.close(timeout=0)


def size_of_record(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    """Return how many bytes kafka-python counts for a record, at most."""
    return int(DefaultRecordBatchBuilder.estimate_size_in_bytes(key, value, headers))


def _close(producer: KafkaProducer, longest_s: float) -> None:
    # Its own closing waits that long for the records, and then once more for its thread. A record
    # that is not acknowledged in time was reported to its sender as unknown.
    deadline_s = monotonic_s() + longest_s
    left_s = 0.0
    try:
        producer.flush(timeout=longest_s)
        left_s = max(0.0, deadline_s - monotonic_s())
    except KafkaTimeoutError:
        # No public call ends it now: its closing would flush again, raise, and leave its thread.
        producer._sender.force_close()
        left_s = CLOSE_GRACE_S
    with contextlib.suppress(KafkaTimeoutError):
        producer.close(timeout=left_s)


def _refusal(error: KafkaError) -> RecordNotSent | None:
    """Return the error for a broker's answer that stores no record; None for others."""
    if isinstance(error, AuthorizationError):
        return _forbidden(error)
    if isinstance(error, _CERTAINLY_REFUSED):
        return RecordNotSent(f"Kafka refused the record: {_in_words(error)}")
    return None


def _forbidden(error: AuthorizationError) -> TopicForbidden:
    topic = error.args[0] if isinstance(error, TopicAuthorizationFailedError) else None
    return TopicForbidden(f"Kafka refused the record: {_in_words(error)}", topic)


def _in_words(error: KafkaError) -> str:
    detail = str(error.args[0]).splitlines()[0] if error.args and error.args[0] else ""
    return f"{type(error).__name__} {detail}".strip()
