"""A producer of librdkafka for a client's records, and the one thread that serves it.

Theory of operation. Dropping the last reference to a producer waits for librdkafka's threads, one
of which may hang in the resolver of host names. So the thread that serves the producer makes it and
drops it, behind everybody's back; callers use it within a lock or a count, and keep no reference.
`end` asks the thread to send the records under way and to end. However it ends, it tells all
records that are left, their end is unknown, and drops the producer. Then nothing of it can be sent
any more: `is_gone`. A successor that is made earlier could overtake its records.

It purges nothing: confluent-kafka 2.16.1 takes `purge(blocking=False)` for a purge that waits, and
holds the interpreter's lock as long as a thread hangs.

If the process ends before, the thread is a daemon and holds nothing up.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from feedback.clock import monotonic_s
from feedback.errors import SecurityFault
from feedback.kafka.confluent.acknowledged_offsets import AcknowledgedOffsets
from feedback.kafka.confluent.bounded_sends import BoundedSends
from feedback.kafka.confluent.bounded_topic import RecordShare
from feedback.kafka.confluent.connection import connection
from feedback.kafka.confluent.faults import words_of
from feedback.kafka.confluent.lone_records import LoneRecords
from feedback.kafka.confluent.pending_record import ConfluentPending, End
from feedback.kafka.confluent.producer_limits import is_first_try
from feedback.kafka.confluent.send_ends import (
    TOO_LARGE,
    end_of_failed,
    forbidden,
    unknown,
)
from feedback.kafka.confluent.sending_properties import sending_properties
from feedback.kafka.confluent.standing import ClientStanding
from feedback.kafka.send_errors import RecordUnknown, TopicAway
from feedback.kafka.sending import CLOSE_GRACE_S, Coordinates, SendingPlan
from feedback.kafka.values import BrokersAway
from feedback.settings.settings import KafkaSection

# How soon an idle thread sees that it is to end.
POLL_S = 0.1
# How long Kafka is asked whether it describes a topic that it has refused.
_ASK_S = 0.5


class NotTaken(Exception):
    """librdkafka did not take a record: nothing of it goes to Kafka.

    Args:
        why: the error of the call.
    """

    def __init__(self, why: Exception) -> None:
        super().__init__(str(why))
        self.why = why


class SendingConnection:
    """A producer and its thread, from the first send to the end. Safe to share between threads.

    Args:
        settings: brokers and security.
        plan: how it sends.
        bounded: the topics of which few bytes are under way at once; more are added.
        until_s: monotonic time until which the producer is waited for.

    Attributes:
        known: topics that Kafka has described, and about which no send has failed since.
        has_met: whether a broker has ever answered.
        is_gone: nothing of it is sent any more; what is on the wire may still be stored.
        pid: the process whose threads serve it.

    Raises:
        KafkaException: librdkafka does not take the settings.
        RuntimeError: there is no thread left.
        TopicAway: it was not ready in time.
    """

    def __init__(
        self, settings: KafkaSection, plan: SendingPlan, bounded: BoundedSends, *, until_s: float
    ) -> None:
        self._settings = settings
        self._plan = plan
        self._bounded = bounded
        self._standing = ClientStanding(settings)
        self._asking: threading.Thread | None = None
        self._pending: set[ConfluentPending] = set()
        self._lone = LoneRecords()
        self._offsets = AcknowledgedOffsets()
        # Records that Kafka has refused for want of a right, each with the error.
        self._forbidden: list[tuple[ConfluentPending, Any]] = []
        self._changed = threading.Condition(threading.Lock())
        self._users = 0
        self._end_s: float | None = None
        self._why_over = "the sender was closed meanwhile"
        self._is_told = threading.Event()
        self.is_gone = threading.Event()
        self.known: set[str] = set()
        self.has_met = False
        self.pid = os.getpid()
        # No frame keeps it: an error would keep the frame, and drop the producer anywhere.
        self._producer: Any = None
        self._fault: Exception | None = None
        properties = {**connection(settings), **sending_properties(plan)}
        is_made = threading.Event()
        self._thread = threading.Thread(
            target=self._run, args=[properties, is_made], name="onceward-librdkafka", daemon=True
        )
        self._thread.start()
        if not is_made.wait(max(0.0, until_s - monotonic_s())):
            self.end(0.0)
            raise self._ended()
        if self._fault is not None:
            raise self._fault

    @property
    def is_ending(self) -> bool:
        """Whether it takes nothing more, and another one has to be made once it is gone."""
        return self._end_s is not None or self._is_told.is_set()

    def topic(self, name: str, timeout_s: float) -> Any:
        """Return librdkafka's description of a topic; None where the answer has none.

        Raises:
            KafkaException: no broker answers.
            TopicAway: this connection has ended.
        """
        with self._lent(monotonic_s() + timeout_s):
            return self._producer.list_topics(name, timeout=timeout_s).topics.get(name)

    def hand_over(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        headers: Any,
        *,
        share: RecordShare,
        deadline_s: float,
    ) -> ConfluentPending | None:
        """Hand a record over, unless its share of the topic is past by now.

        Raises:
            NotTaken: librdkafka did not take it.
            TopicAway: this connection has ended, or is not free in time; nothing was handed over.
        """
        pending = ConfluentPending(
            topic, deadline_s, share=share, judge=self._judge, why=self._fault_since
        )
        if not self._changed.acquire(timeout=max(0.0, deadline_s - monotonic_s())):
            raise self._ended()
        try:
            if self.is_ending:
                raise self._ended()
            if self._bounded.is_past(topic, share):
                return None
            taken: list[None] = []
            # First: one too many makes a word unknown, one too few would make one that is not so.
            self._lone.begin(topic)
            share.is_handed_over = True
            try:
                self._pending.add(pending)
                # All of it is one call of C: no signal handler raises between the taking and its
                # note. No variable keeps a method of the producer, as an error would keep that.
                taken.extend(
                    map(
                        partial(
                            self._producer.produce,
                            value=value,
                            key=key,
                            headers=headers,
                            on_delivery=pending.hear,
                        ),
                        [topic],
                    )
                )
            except (KafkaException, BufferError, ValueError, TypeError) as error:
                if taken:
                    # A handler's, which is its caller's: it says nothing of the record.
                    raise
                raise NotTaken(error) from error
            finally:
                if not taken:
                    share.is_handed_over = False
                    self._forget(pending)
        finally:
            self._changed.release()
        return pending

    def why_away(self, *, since_s: float, until_s: float) -> BrokersAway:
        """Return why no connection was made since a monotonic time.

        It may ask a broker's listener, which takes no longer than that.
        """
        found: list[BrokersAway] = []

        def ask() -> None:
            found.append(self._standing.why_away(since_s=since_s))

        asking = threading.Thread(target=ask, name="onceward-listener", daemon=True)
        try:
            asking.start()
        except RuntimeError:  # there is no thread left
            return BrokersAway("", self._fault_since(since_s))
        asking.join(max(0.0, until_s - monotonic_s()))
        return found[0] if found else BrokersAway("", self._fault_since(since_s))

    def met(self) -> None:
        """Note that a broker has answered."""
        self.has_met = True
        self._standing.forget()

    def end(self, timeout_s: float) -> None:
        """Let the thread send the records under way for so long, and end; return at once."""
        until_s = monotonic_s() + timeout_s
        self._end_s = until_s if self._end_s is None else min(self._end_s, until_s)

    def await_end(self, until_s: float) -> None:
        """Return when each record's end is known after `end`, or at a monotonic time.

        The thread is waited for a moment as well. One that hangs ends behind our back.
        """
        if threading.current_thread() is self._thread:
            return
        if self._pending:
            self._is_told.wait(max(0.0, until_s - monotonic_s()))
        self._thread.join(max(0.0, min(CLOSE_GRACE_S, until_s - monotonic_s())))

    @contextmanager
    def _lent(self, until_s: float) -> Iterator[None]:
        if not self._changed.acquire(timeout=max(0.0, until_s - monotonic_s())):
            raise self._ended()
        try:
            if self.is_ending:
                raise self._ended()
            self._users += 1
        finally:
            self._changed.release()
        try:
            yield
        finally:
            with self._changed:
                self._users -= 1
                self._changed.notify_all()

    def _ended(self) -> TopicAway:
        where = self._settings.bootstrap_servers
        return TopicAway(f"Kafka at {where} is away: the connection ended meanwhile")

    def _run(self, properties: dict[str, Any], is_made: threading.Event) -> None:
        """Make the producer, serve it, and drop it: all of it in this thread."""
        try:
            self._producer = Producer({**properties, "error_cb": self._hear_error})
        except (KafkaException, ValueError, TypeError) as error:
            self._fault = error
        finally:
            if self._producer is None:
                self.end(0.0)
                self._is_told.set()
                self.is_gone.set()
            is_made.set()
        if self._producer is None:
            return
        try:
            self._serve()
        except KafkaException as error:
            # Raised by a poll: librdkafka has given the producer up (a fatal error).
            self._why_over = words_of(error.args[0])
        finally:
            try:
                self._tell_the_rest()
            finally:
                self._drop()

    def _serve(self) -> None:
        while self._end_s is None:
            self._producer.poll(POLL_S)
            self._ask_about_forbidden(_ASK_S)
        while (left_s := self._end_s - monotonic_s()) > 0 and self._pending:
            self._producer.flush(min(left_s, POLL_S))
            self._ask_about_forbidden(min(left_s, _ASK_S))

    def _tell_the_rest(self) -> None:
        with self._changed:
            # From now on nothing is handed over.
            self.end(0.0)
        told = RecordUnknown(f"Kafka did not acknowledge: {self._why_over}")
        with ExitStack() as rest:
            rest.callback(self._is_told.set)
            # Each is told, whatever another one raises.
            while self._pending:
                rest.callback(self._pending.pop().finish, told)

    def _drop(self) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._users)
            dropped, self._producer = self._producer, None
        # Outside the lock, since it may take long.
        del dropped
        self.is_gone.set()

    def _ask_about_forbidden(self, timeout_s: float) -> None:
        """End the records that were refused for want of a right, each alone of its topic.

        librdkafka tells this of the broker's answer to a record, and of a topic's description,
        which may have come between two tries. If Kafka describes the topic it was the former.
        """
        described: dict[str, bool] = {}
        while self._forbidden:
            pending, error = self._forbidden.pop(0)
            topic = pending.topic
            if topic not in described:
                described[topic] = self._is_described(topic, timeout_s)
            self._forget(pending)
            tell = forbidden if described[topic] else unknown
            pending.finish(tell(error, self._settings, topic))

    def _is_described(self, topic: str, timeout_s: float) -> bool:
        try:
            found = self._producer.list_topics(topic, timeout=timeout_s).topics.get(topic)
        except KafkaException:
            return False
        return found is not None and found.error is None

    def _judge(
        self, pending: ConfluentPending, error: Any, message: Any, after_s: float
    ) -> End | None:
        if error is None:
            self._bounded.taken(pending)
            end = self._place_of(message)
        else:
            if error.code() in TOO_LARGE:
                with self._changed:
                    self._bounded.refused(pending, partial(self._beside, pending.topic))
            # The topic may be gone, or elsewhere: the next send asks.
            self.known.discard(pending.topic)
            certain = not self._plan.durability.is_idempotent and is_first_try(after_s)
            is_forbidden = error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
            if certain and is_forbidden and self._lone.is_alone(pending.topic):
                self._forbidden.append((pending, error))
                return None
            end = end_of_failed(error, self._settings, pending.topic, is_first_try=certain)
        self._forget(pending)
        return end

    def _forget(self, pending: ConfluentPending) -> None:
        if pending in self._pending:
            self._pending.discard(pending)
            self._lone.end(pending.topic)

    def _beside(self, topic: str) -> list[ConfluentPending]:
        return [one for one in self._pending if one.topic == topic]

    def _place_of(self, message: Any) -> End:
        """Return where an acknowledged record is stored, if that is sure."""
        partition, offset = (message.topic(), message.partition()), message.offset()
        if self._offsets.is_place(partition, offset):
            return Coordinates(*partition, offset)
        self.end(self._plan.send_timeout_s)
        return RecordUnknown("Kafka acknowledged it, and does not say where it is")

    def _fault_since(self, since_s: float) -> SecurityFault | None:
        return self._standing.heard(since_s=since_s).fault

    def _hear_error(self, error: Any) -> None:
        if self._is_told.is_set():
            return
        if error.code() != KafkaError._SSL:
            self._standing.hear_error(error)
        elif self._asking is None or not self._asking.is_alive():
            # A certificate is looked at over a connection of our own, for which no record waits.
            self._asking = threading.Thread(
                target=self._standing.hear_error,
                args=[error],
                name="onceward-certificate",
                daemon=True,
            )
            # Where there is no thread left the reason is not known, and no record suffers.
            with suppress(RuntimeError):
                self._asking.start()
