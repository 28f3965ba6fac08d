"""Commits a member's offsets and asks for them, in a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import TopicPartition

from feedback.kafka.confluent.faults import READ, fault_from, faults
from feedback.kafka.errors import KafkaFault
from feedback.kafka.member import ANSWER_S
from feedback.kafka.values import Partition
from feedback.settings.settings import KafkaSection

GivenT = TypeVar("GivenT")
AnswerT = TypeVar("AnswerT")


class CommittedOffsets:
    """The committed offsets of a member's group.

    A commit waits for longer than its callers, and those of one member keep their order.

    Args:
        settings: names the brokers.
        consumer: librdkafka's.
    """

    def __init__(self, settings: KafkaSection, consumer: Any) -> None:
        self._settings = settings
        self._consumer = consumer
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="onceward-commit")

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition.

        Raises:
            KafkaFault: it was refused, or its outcome is unknown.
        """
        self._answer(self.commit_here, offsets)

    def committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        """Return the committed offset of each partition.

        Raises:
            KafkaFault: no broker answered in time.
        """
        return self._answer(self._committed, partitions)

    def commit_here(self, offsets: Mapping[Partition, int]) -> None:
        """Commit in this thread, for however long that takes.

        Raises:
            KafkaFault: it was refused, or its outcome is unknown.
        """
        wanted = [TopicPartition(*one, offset) for one, offset in offsets.items()]
        if not wanted:
            return
        with faults(self._settings, operation=READ):
            answers = self._consumer.commit(offsets=wanted, asynchronous=False)
        for one in answers or ():
            if one.error is not None:
                raise fault_from(one.error, self._settings, operation=READ, topic=one.topic)

    def close(self) -> None:
        """Begin no commit any more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _committed(self, partitions: Collection[Partition]) -> dict[Partition, int]:
        asked = [TopicPartition(*one) for one in partitions]
        if not asked:
            return {}
        with faults(self._settings, operation=READ):
            answers = self._consumer.committed(asked, timeout=ANSWER_S)
        for one in answers:
            if one.error is not None:
                raise fault_from(one.error, self._settings, operation=READ, topic=one.topic)
        return {(one.topic, one.partition): max(0, one.offset) for one in answers}

    def _answer(self, question: Callable[[GivenT], AnswerT], given: GivenT) -> AnswerT:
        """Return the answer to a question for which librdkafka may wait longer than is asked."""
        under_way = self._thread.submit(question, given)
        try:
            return under_way.result(ANSWER_S)
        except TimeoutError as error:
            under_way.cancel()
            where = f"Kafka at {self._settings.bootstrap_servers}"
            raise KafkaFault(f"{where} did not answer of committed offsets in time") from error
