"""The outbox's producer: sends in the order given, and never gives a record up by itself."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection
from typing import Any

from kafka import KafkaProducer
from kafka.errors import KafkaTimeoutError, TopicAuthorizationFailedError
from kafka.util import ensure_valid_topic_name

from feedback.clock import monotonic_s
from feedback.kafka.kafka_python.send_refusals import forbidden
from feedback.kafka.kafka_python.sender import KafkaPythonSender
from feedback.kafka.send_errors import RecordNotSent, TopicAway, TopicUnknown
from feedback.settings.settings import KafkaSection

# How long one connection attempt takes.
CONNECT_S = 10.0
ABANDON_S = 2.0
_FOR_EVER_MS = 2**31 - 1


class KafkaPythonOrderedSender(KafkaPythonSender):
    """Sends in the order given, for a sender that stores its records: the idempotent producer.

    A record never times out inside it, since the next one of its key would then go first: it tries
    until `abandon`. Belongs to one thread.

    Args:
        settings: brokers and security.
        send_timeout_s: how long `KafkaPythonPending.result` waits.
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
        asked_s = monotonic_s()
        has_answered = self._ask(producer, asked)
        for topic in asked:
            if self.knows(topic):
                del refused[topic]
            elif not has_answered:
                refused[topic] = self._silent(producer, asked_s)
            elif topic in producer._metadata.unauthorized_topics:
                refused[topic] = forbidden(TopicAuthorizationFailedError(topic))
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
