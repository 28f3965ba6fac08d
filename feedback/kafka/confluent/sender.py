"""The clients' sender on librdkafka: single records, and how each send ended.

It behaves as kafka-python's (`feedback.kafka.kafka_python.sender`), but for these:
- Without idempotence a record is tried once: if the connection breaks before the acknowledgement,
  its end is unknown at once. kafka-python would try again until `send_timeout_s`.
- A batch that a broker refuses is not sent again record by record, so no record is overtaken by
  later ones of its key: all of it is certainly not sent. From then on few bytes of that topic are
  under way at once.
- After a send that failed its topic is asked for again. While Kafka is away, the next record is
  certainly not sent, where kafka-python would take it and call it unknown.
- An idempotent producer goes on after an unknown outcome. It is replaced once librdkafka has given
  it up, or has told an offset that is none; nothing is sent until it is gone.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Any

from confluent_kafka import KafkaError, KafkaException

from feedback.clock import monotonic_s
from feedback.kafka.confluent.bounded_sends import BoundedSends
from feedback.kafka.confluent.bounded_topic import RecordShare
from feedback.kafka.confluent.faults import ABSENT, fault_of, words_of
from feedback.kafka.confluent.pending_record import ConfluentPending
from feedback.kafka.confluent.send_ends import forbidden, refused
from feedback.kafka.confluent.sending_connection import NotTaken, SendingConnection
from feedback.kafka.record_limits import fault_of_record, is_legal, size_of
from feedback.kafka.send_errors import (
    KafkaAway,
    OutOfTime,
    RecordNotSent,
    SenderClosed,
    TopicAway,
    TopicUnknown,
)
from feedback.kafka.sending import (
    CLOSE_GRACE_S,
    CLOSED,
    SendingPlan,
    locked_until,
    require_safe_topic,
)
from feedback.settings.settings import KafkaSection

FORKED = "the sender was used before a fork: make one per process, after the fork"
# How long Kafka is asked in vain at first, before the errors of its connections are looked at.
_LOOK_S = 0.5
# Between two questions for a topic that is not there, or has no leader.
_PAUSE_S = 0.1
_Headers = list[tuple[str, bytes]]


class ConfluentSender:
    """See `feedback.kafka.sending.KafkaSender`.

    Args:
        settings: brokers and security.
        plan: how it sends.
    """

    def __init__(self, settings: KafkaSection, plan: SendingPlan) -> None:
        self._settings = settings
        self._plan = plan
        self._connection: SendingConnection | None = None
        self._ends_with_us: weakref.finalize[..., ConfluentSender] | None = None
        self._bounded = BoundedSends()
        self._closing = threading.Event()
        self._lock = threading.Lock()

    @property
    def address(self) -> str:
        """Kafka's address."""
        return self._settings.bootstrap_servers

    def send(
        self,
        topic: str,
        *,
        key: bytes | None,
        value: bytes | None,
        headers: _Headers,
        deadline_s: float | None = None,
    ) -> ConfluentPending:
        """Hand a record over and return at once when the topic is known.

        Args, Raises: as of `KafkaSender.send`.
        """
        now_s = monotonic_s()
        latest_s = now_s + self._plan.send_timeout_s
        until_s = latest_s if deadline_s is None else min(latest_s, deadline_s)
        if until_s <= now_s:
            raise OutOfTime("no time was left to hand it to Kafka")
        size = self._size_of_takeable(topic, key, value, headers)
        connection = self._connected(until_s)
        if topic not in connection.known:
            self._learn(connection, topic, until_s)
        require_safe_topic(self._plan.safety, topic, until_s)

        def give(share: RecordShare) -> ConfluentPending | None:
            return connection.hand_over(topic, key, value, headers, share=share, deadline_s=until_s)

        try:
            return self._bounded.hand_over(topic, size, give, until_s=until_s)
        except NotTaken as error:
            raise self._not_taken(connection, error.why, topic) from error.why
        except TopicAway as error:
            raise (SenderClosed(CLOSED) if self._closing.is_set() else error) from error

    def knows(self, topic: str) -> bool:
        """Return whether a send to the topic would be handed over without asking Kafka."""
        connection = self._connection
        if connection is None or connection.is_ending or topic not in connection.known:
            return False
        return self._plan.safety is None or self._plan.safety.knows(topic)

    def why_wait(
        self, topic: str, *, key: bytes | None, value: bytes | None, headers: _Headers
    ) -> str | None:
        """Say why a record would wait for earlier ones of its topic; None: it would not."""
        if topic not in self._bounded:
            return None
        try:
            size = self._size_of_takeable(topic, key, value, headers)
        except RecordNotSent:
            # The sending says so.
            return None
        return self._bounded.why_wait(topic, size)

    def close(self, timeout_s: float | None = None) -> None:
        """Send the records under way and close for good.

        Args:
            timeout_s: how long that may take; None for `send_timeout_s`.
        """
        longest_s = self._plan.send_timeout_s + CLOSE_GRACE_S if timeout_s is None else timeout_s
        until_s = monotonic_s() + longest_s
        self._closing.set()
        # Whoever makes a connection just now looks at it afterwards.
        is_mine = self._lock.acquire(timeout=longest_s)
        connection, self._connection = self._connection, None
        if is_mine:
            self._lock.release()
        if connection is not None and connection.pid == os.getpid():
            connection.end(max(0.0, until_s - monotonic_s()))
            connection.await_end(until_s)

    def _size_of_takeable(
        self, topic: str, key: bytes | None, value: bytes | None, headers: list[tuple[Any, Any]]
    ) -> int:
        """Return the size of a record that librdkafka and this client take.

        Raises:
            RecordNotSent: they do not.
        """
        if not is_legal(topic):
            raise RecordNotSent(f"Kafka refused the record: no topic can be called {topic!r}")
        if (fault := fault_of_record(key, value, headers)) is not None:
            raise RecordNotSent(fault)
        if not all(isinstance(name, str) for name, _ in headers):
            raise RecordNotSent("a header's name is no text")
        if any("\0" in name for name, _ in headers):
            raise RecordNotSent("a header's name has a null character: librdkafka would cut it")
        try:
            size = size_of(key, value, headers)
        except UnicodeError as error:
            # librdkafka would end the process.
            raise RecordNotSent(f"a header's name is no text of Unicode: {error}") from error
        if size > self._plan.max_request_bytes:
            raise RecordNotSent(f"the record is larger than {self._plan.max_request_bytes} bytes")
        return size

    def _connected(self, until_s: float) -> SendingConnection:
        found = self._connection
        if found is not None and found.pid != os.getpid():
            raise SenderClosed(FORKED)
        if found is not None and not found.is_ending:
            return found
        with locked_until(self._lock, until_s, address=self.address):
            if self._closing.is_set():
                raise SenderClosed(CLOSED)
            # A closing that did not get the lock may take the attribute away at any moment.
            found = self._connection
            if found is not None and found.is_ending:
                self._await_end_of(found, until_s)
                found = None
            if found is None:
                self._connection = found = self._connect(until_s)
        if self._closing.is_set():
            # A closing that did not wait for us did not see it.
            found.end(0.0)
            raise SenderClosed(CLOSED)
        return found

    def _await_end_of(self, before: SendingConnection, until_s: float) -> None:
        """Return when a successor overtakes nothing."""
        if not before.is_gone.wait(max(0.0, until_s - monotonic_s())):
            raise TopicAway(f"Kafka at {self.address} is away: earlier records are still under way")
        if self._ends_with_us is not None:
            self._ends_with_us.detach()

    def _connect(self, until_s: float) -> SendingConnection:
        try:
            made = SendingConnection(self._settings, self._plan, self._bounded, until_s=until_s)
        except KafkaException as error:
            found = fault_of(error.args[0], self._settings)
            if found is not None:
                raise KafkaAway(f"Kafka at {self.address}: {found.said}").because(found) from error
            said = words_of(error.args[0])
            raise TopicAway(f"the [kafka] settings do not work: {said}") from error
        except (RuntimeError, ValueError, TypeError) as error:
            raise TopicAway(f"Kafka at {self.address}: {type(error).__name__} {error}") from error
        # Its thread ends with this sender, also with one that nobody has closed.
        self._ends_with_us = weakref.finalize(self, made.end, self._plan.send_timeout_s)
        self._ends_with_us.atexit = False
        return made

    def _learn(self, connection: SendingConnection, topic: str, until_s: float) -> None:
        """Return when Kafka has described a topic, which may come while it is waited for.

        Raises:
            RecordNotSent: nothing can be sent there now.
        """
        began_s, look_s, has_answered = monotonic_s(), _LOOK_S, False
        away: TopicAway = OutOfTime(f"no time was left to ask Kafka for topic {topic!r}")
        while (left_s := until_s - monotonic_s()) > 0:
            if self._closing.is_set():
                raise SenderClosed(CLOSED)
            try:
                found = connection.topic(topic, min(look_s, left_s))
            except KafkaException as error:
                why = connection.why_away(since_s=began_s, until_s=until_s)
                if why.fault is None and has_answered and left_s < look_s:
                    # Its last words count: the end of our own time has cut this question short.
                    break
                away = self._away(connection, why.reason or words_of(error.args[0]), why.fault)
                if why.fault is not None:
                    raise away from error
                # Far away, or with many topics, it may take longer than this each time.
                look_s *= 2
                continue
            connection.met()
            has_answered = True
            if (why_not := self._fault_of_topic(found, topic)) is None:
                connection.known.add(topic)
                return
            if not isinstance(why_not, TopicAway):
                raise why_not
            away = why_not
            self._closing.wait(min(_PAUSE_S, max(0.0, until_s - monotonic_s())))
        raise away

    def _fault_of_topic(self, found: Any, topic: str) -> RecordNotSent | None:
        """Return why a topic takes nothing; None where it does."""
        if found is None:
            return TopicAway(f"Kafka at {self.address} does not describe topic {topic!r}")
        if found.error is None:
            if found.partitions:
                return None
            return TopicAway(f"Kafka at {self.address}: topic {topic!r} has no partition yet")
        return self._refusal(found.error, topic)

    def _refusal(self, error: Any, topic: str) -> RecordNotSent:
        if error.code() in {*ABSENT, KafkaError._UNKNOWN_PARTITION}:
            return TopicUnknown(f"Kafka at {self.address} knows no topic {topic!r}")
        if error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return forbidden(error, self._settings, topic)
        if error.code() in {KafkaError.TOPIC_EXCEPTION, KafkaError.MSG_SIZE_TOO_LARGE}:
            return refused(error)
        found = fault_of(error, self._settings)
        said = words_of(error) if found is None else found.said
        return TopicAway(f"Kafka at {self.address}: {said}").because(found)

    def _not_taken(
        self, connection: SendingConnection, why: Exception, topic: str
    ) -> RecordNotSent:
        """Return the error for a record that librdkafka did not take."""
        if isinstance(why, BufferError):
            return RecordNotSent(f"too much waits to be sent: {why}")
        if not isinstance(why, KafkaException):
            return RecordNotSent(f"{type(why).__name__} {why}")
        error = why.args[0]
        connection.known.discard(topic)
        # librdkafka has given the producer up.
        if error.code() == KafkaError._FATAL or error.fatal():
            connection.end(0.0)
        return self._refusal(error, topic)

    def _away(self, connection: SendingConnection, reason: str, why: Any) -> TopicAway:
        kind = TopicAway if connection.has_met else KafkaAway
        if why is not None:
            return kind(f"Kafka at {self.address}: {why.said}").because(why)
        return kind(f"Kafka at {self.address} is away: {reason}")
