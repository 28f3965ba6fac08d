"""A producer of librdkafka for a client's records, and the one thread that serves it.

Theory of operation. Dropping the last reference to a producer waits for librdkafka's threads, one
of which may hang in the resolver of host names. So the thread that serves the producer is also the
one that drops it, behind everybody's back; callers use it within a lock or a count, and keep no
reference. `end` asks the thread to send what is under way and to end. However it ends, it tells all
records that are left: their end is unknown.

If the process ends before, the thread is a daemon and holds nothing up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, Producer

from feedback.clock import monotonic_s
from feedback.errors import SecurityFault
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.pending_record import ConfluentPending, End
from feedback.kafka.confluent.send_ends import OWN_PAUSE_MS, end_of_failed
from feedback.kafka.confluent.standing import Standing
from feedback.kafka.send_errors import RecordUnknown, TopicAway
from feedback.kafka.sending import Coordinates, SendingPlan
from feedback.kafka.values import Away, Partition
from feedback.settings.settings import KafkaSection

# How soon an idle thread sees that it is to end.
POLL_S = 0.1
_BATCH_BYTES = 65_536
_ANY_SIZE_BYTES = 10**9
_ANY_SIZE_KIB = 2**31 - 1
_IDLE_MS = 540_000
# librdkafka's limits of its own times.
_LEAST_SETUP_MS, _LEAST_SOCKET_MS, _MOST_SOCKET_MS = 1000, 100, 300_000


class SendingConnection:
    """A producer and its thread, from the first send to the end. Safe to share between threads.

    Args:
        settings: brokers and security.
        plan: how it sends.

    Attributes:
        known: topics that Kafka has described, and about which no send has failed since.
        has_met: whether a broker has ever answered.
        is_lost: it sends nothing any more, and another one has to be made.
        pid: the process whose threads serve it.

    Raises:
        KafkaException: librdkafka does not take the settings.
    """

    def __init__(self, settings: KafkaSection, plan: SendingPlan) -> None:
        self._settings = settings
        self._is_idempotent = plan.durability.is_idempotent
        self._standing = Standing(settings)
        self._asking: threading.Thread | None = None
        self._pending: set[ConfluentPending] = set()
        # The last acknowledged offset of each partition.
        self._last: dict[Partition, int] = {}
        self._changed = threading.Condition(threading.Lock())
        self._users = 0
        self._end_s: float | None = None
        self._is_over = threading.Event()
        self.known: set[str] = set()
        self.has_met = False
        self.is_lost = False
        self.pid = os.getpid()
        self._producer: Any = Producer(
            {**connection(settings), **_properties(plan), "error_cb": self._hear_error}
        )
        self._thread = threading.Thread(
            target=self._serve, args=[self._producer], name="onceward-librdkafka", daemon=True
        )
        self._thread.start()

    def topic(self, name: str, timeout_s: float) -> Any:
        """Return librdkafka's description of a topic; None where the answer has none.

        Raises:
            KafkaException: no broker answers.
            TopicAway: this connection has ended.
        """
        with self._lent():
            return self._producer.list_topics(name, timeout=timeout_s).topics.get(name)

    def hand_over(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Any, *, deadline_s: float
    ) -> ConfluentPending:
        """Hand a record over.

        Raises:
            KafkaException, BufferError, TypeError, ValueError: nothing was handed over.
            TopicAway: nothing was, and this connection has ended or is not free in time.
        """
        pending = ConfluentPending(topic, deadline_s, judge=self._judge, why=self._fault_since)
        if not self._changed.acquire(timeout=max(0.0, deadline_s - monotonic_s())):
            raise self._ended()
        try:
            if self._is_ending():
                raise self._ended()
            self._pending.add(pending)
            try:
                self._producer.produce(
                    topic, value=value, key=key, headers=headers, on_delivery=pending.hear
                )
            except BaseException:
                self._pending.discard(pending)
                raise
        finally:
            self._changed.release()
        return pending

    def why_away(self, *, since_s: float, until_s: float) -> Away:
        """Return why no connection was made since a monotonic time.

        It may ask a broker's listener, which takes no longer than that.
        """
        found: list[Away] = []

        def ask() -> None:
            found.append(self._standing.why_away(since_s=since_s))

        asking = threading.Thread(target=ask, name="onceward-listener", daemon=True)
        asking.start()
        asking.join(max(0.0, until_s - monotonic_s()))
        return found[0] if found else Away("", self._fault_since(since_s))

    def met(self) -> None:
        """Note that a broker has answered."""
        self.has_met = True
        self._standing.forget()

    def end(self, timeout_s: float) -> None:
        """Let the thread send the records under way for so long, and end; return at once."""
        if self._end_s is None:
            self._end_s = monotonic_s() + timeout_s

    def await_ends(self, until_s: float) -> None:
        """Return when each record's end is known after `end`, or at a monotonic time."""
        # Without records there is nothing to wait for: the thread ends behind our back.
        if self._pending:
            self._is_over.wait(max(0.0, until_s - monotonic_s()))

    @contextmanager
    def _lent(self) -> Iterator[None]:
        with self._changed:
            if self._is_ending():
                raise self._ended()
            self._users += 1
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def _is_ending(self) -> bool:
        return self._end_s is not None or self._is_over.is_set()

    def _ended(self) -> TopicAway:
        where = self._settings.bootstrap_servers
        return TopicAway(f"Kafka at {where} is away: the connection ended meanwhile")

    def _serve(self, producer: Any) -> None:
        try:
            while self._end_s is None:
                producer.poll(POLL_S)
            producer.flush(max(0.0, self._end_s - monotonic_s()))
        finally:
            self.is_lost = True
            try:
                with self._changed:
                    # From now on nothing is handed over.
                    self._is_over_soon()
                producer.purge(blocking=False)
                producer.poll(0)
            finally:
                self._tell_the_rest()
                with self._changed:
                    self._changed.wait_for(lambda: not self._users)
                    self._producer = None

    def _is_over_soon(self) -> None:
        if self._end_s is None:
            self._end_s = monotonic_s()

    def _tell_the_rest(self) -> None:
        while self._pending:
            one = self._pending.pop()
            one.finish(RecordUnknown("Kafka did not acknowledge: the sender was closed meanwhile"))
        self._is_over.set()

    def _judge(self, pending: ConfluentPending, error: Any, message: Any, after_s: float) -> End:
        self._pending.discard(pending)
        if error is None:
            return self._place_of(message)
        # It may be gone, or elsewhere: the next send asks.
        self.known.discard(pending.topic)
        return end_of_failed(
            error,
            self._settings,
            pending.topic,
            heard_after_s=after_s,
            refusals_are_certain=not self._is_idempotent,
        )

    def _place_of(self, message: Any) -> End:
        """Return where an acknowledged record is stored, if that is sure.

        librdkafka also counts a record as acknowledged that the broker calls a duplicate: where
        that one is stored, nobody says.
        """
        place, offset = (message.topic(), message.partition()), message.offset()
        last = self._last.get(place, -1) if self._is_idempotent else -1
        self._last[place] = offset
        if offset is None or offset <= last:
            return RecordUnknown("Kafka acknowledged it, and does not say where it is")
        return Coordinates(*place, offset)

    def _fault_since(self, since_s: float) -> SecurityFault | None:
        return self._standing.heard(since_s=since_s).fault

    def _hear_error(self, error: Any) -> None:
        if error.code() == KafkaError._FATAL:
            self.is_lost = True
        elif error.code() != KafkaError._SSL:
            self._standing.hear_error(error)
        elif self._asking is None or not self._asking.is_alive():
            # A certificate is looked at over a connection of our own, for which no record waits.
            self._asking = threading.Thread(
                target=self._standing.hear_error,
                args=[error],
                name="onceward-certificate",
                daemon=True,
            )
            self._asking.start()


def _properties(plan: SendingPlan) -> dict[str, Any]:
    durability, timeout_ms = plan.durability, max(1, int(plan.send_timeout_s * 1000))
    answer_ms = min(max(_LEAST_SOCKET_MS, timeout_ms - 100), _MOST_SOCKET_MS)
    # Without numbers by which a broker knows a record again, another try makes another record.
    tries: dict[str, Any] = {
        "retries": 0,
        "retry.backoff.ms": OWN_PAUSE_MS,
        "retry.backoff.max.ms": OWN_PAUSE_MS,
    }
    return {
        "acks": durability.acks,
        "enable.idempotence": durability.is_idempotent,
        "max.in.flight.requests.per.connection": durability.in_flight,
        **({} if durability.is_idempotent else tries),
        "message.timeout.ms": timeout_ms,
        "request.timeout.ms": answer_ms,
        "socket.timeout.ms": answer_ms,
        "socket.connection.setup.timeout.ms": max(_LEAST_SETUP_MS, timeout_ms),
        "socket.nagle.disable": True,
        "connections.max.idle.ms": _IDLE_MS,
        "linger.ms": min(durability.linger_ms, timeout_ms / 2),
        "batch.size": _BATCH_BYTES,
        # Callers bound the records in flight, and each one's size is looked at before.
        "message.max.bytes": _ANY_SIZE_BYTES,
        "queue.buffering.max.messages": 0,
        "queue.buffering.max.kbytes": _ANY_SIZE_KIB,
        # As other clients choose it, by the same hash.
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
        "enable.metrics.push": False,
    }
