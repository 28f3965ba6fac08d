"""Takes a transactional id: its epoch is raised, and partitions are marked with it.

See `fence` for its use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

from kafka.errors import (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    InvalidProducerEpochError,
    NotCoordinatorError,
    ProducerFencedError,
    UnknownTopicOrPartitionError,
    for_code,
)
from kafka.protocol.producer import (
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
)

from feedback.clock import monotonic_s
from feedback.errors import KafkaUnavailable
from feedback.kafka.fencing import Fenced
from feedback.kafka.kafka_python.faults import fault_of
from feedback.kafka.kafka_python.wire import CoordinatorAway, KafkaWire
from feedback.kafka.values import Partition

# Of the empty transaction: an owner that dies while it takes the id delays the next one by so long.
TRANSACTION_MS = 10_000
# A coordinator that is being found, or writes the markers, is ready within milliseconds.
ASK_AGAIN_S = 0.02
FENCED = (InvalidProducerEpochError, ProducerFencedError)

_SOON = (
    ConcurrentTransactionsError,
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
    UnknownTopicOrPartitionError,
)


AnswerT = TypeVar("AnswerT")


class _Soon(KafkaUnavailable):
    """The coordinator is not ready."""


class Producer(NamedTuple):
    """The writer: Kafka's number of the transactional id, and its epoch."""

    number: int
    epoch: int


class TransactionalId:
    """Takes a transactional id. Belongs to one thread.

    Args:
        wire: asks the brokers.
        name: the transactional id.
    """

    def __init__(self, wire: KafkaWire, name: str) -> None:
        self._wire = wire
        self._name = name

    def take(self, places: Collection[Partition]) -> Producer:
        """OffsetMark partitions; return the producer that may write to them, after the markers.

        Raises:
            Fenced: another process takes the id at the same time.
            KafkaUnavailable: Kafka is away, or refuses; an earlier owner may still write.
        """
        deadline_s = monotonic_s() + self._wire.timeout_s + TRANSACTION_MS / 1000
        first = self._soon(self._begin, deadline_s)
        self._soon(lambda: self._add(first, places), deadline_s)
        self._soon(lambda: self._end(first), deadline_s)
        # The broker answers after the markers are written, not before.
        return self._soon(self._begin, deadline_s)

    def _begin(self) -> Producer:
        answer = self._asked(
            InitProducerIdRequest(
                transactional_id=self._name,
                transaction_timeout_ms=TRANSACTION_MS,
                producer_id=-1,
                producer_epoch=-1,
                max_version=4,
            )
        )
        self._judge(answer.error_code)
        return Producer(answer.producer_id, answer.producer_epoch)

    def _add(self, producer: Producer, places: Collection[Partition]) -> None:
        numbers: dict[str, list[int]] = {}
        for topic, number in sorted(places):
            numbers.setdefault(topic, []).append(number)
        of_topic = AddPartitionsToTxnRequest.AddPartitionsToTxnTopic
        answer = self._asked(
            AddPartitionsToTxnRequest(
                v3_and_below_transactional_id=self._name,
                v3_and_below_producer_id=producer.number,
                v3_and_below_producer_epoch=producer.epoch,
                v3_and_below_topics=[
                    of_topic(name=one, partitions=numbers[one]) for one in numbers
                ],
                max_version=3,
            )
        )
        for found in answer.results_by_topic_v3_and_below:
            for one in found.results_by_partition:
                self._judge(one.partition_error_code, found.name)

    def _end(self, producer: Producer) -> None:
        answer = self._asked(
            EndTxnRequest(
                transactional_id=self._name,
                producer_id=producer.number,
                producer_epoch=producer.epoch,
                committed=True,
                max_version=3,
            )
        )
        self._judge(answer.error_code)

    def _asked(self, request: Any) -> Any:
        return self._wire.ask(self._wire.transaction_coordinator(self._name), request)

    def _judge(self, code: int, topic: str = "") -> None:
        if not code:
            return
        error = for_code(code)
        if issubclass(error, _SOON):
            raise _Soon(f"Kafka: {error.__name__}")
        if issubclass(error, FENCED):
            raise Fenced(f"another process takes {self._name}: {error.__name__}")
        why = fault_of(error(topic or self._name), operation="Write")
        said = error.__name__ if why is None else why.said
        raise KafkaUnavailable(f"Kafka refuses the transactional id {self._name}: {said}").because(
            why
        )

    def _soon(self, ask: Callable[[], AnswerT], deadline_s: float) -> AnswerT:
        while True:
            try:
                return ask()
            except (_Soon, CoordinatorAway):
                if monotonic_s() > deadline_s:
                    raise
            # No event reports that the coordinator is ready.
            time.sleep(ASK_AGAIN_S)
