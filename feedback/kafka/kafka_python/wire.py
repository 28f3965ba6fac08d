"""Sends single requests of Kafka's protocol to one broker; kafka-python has no call for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafka.errors import for_code
from kafka.protocol.consumer import ListOffsetsRequest
from kafka.protocol.metadata import FindCoordinatorRequest
from kafka.structs import TopicPartition

from feedback.errors import KafkaUnavailable
from feedback.kafka.kafka_python.faults import fault_of, faults
from feedback.kafka.kafka_python.sockets import closed_at_a_fault
from feedback.settings.settings import KafkaSection

# The kinds of names that have a coordinator.
GROUP, TRANSACTION = 0, 1
_LATEST = -1
_UNCOMMITTED = 0


class CoordinatorAway(KafkaUnavailable):
    """The broker that has a transactional id is being looked for: asking again is right."""


class KafkaWire:
    """Asks brokers over connections that are made at the first question. Belongs to one thread.

    After a fault the connections are made anew, and leaders are looked for again.

    Args:
        settings: brokers and security.
        timeout_s: how long Kafka may take for an answer.
    """

    def __init__(self, settings: KafkaSection, *, timeout_s: float = 5.0) -> None:
        self._settings = settings
        self.timeout_s = timeout_s
        self._client: Any = None

    def ask(self, node_id: int, request: Any) -> Any:
        """Return a broker's answer, even if it is an error.

        Raises:
            KafkaUnavailable: there was none; whether the broker got the question is unknown.
        """
        limit_ms = int(self.timeout_s * 1000)
        with self._faults():
            return self._connected().send_and_receive(node_id, request, timeout_ms=limit_ms)

    def leader(self, topic: str, partition: int) -> int:
        """Return the broker that takes records of a partition.

        Raises:
            KafkaUnavailable: the partition has no leader now.
        """
        place = TopicPartition(topic, partition)
        with self._faults():
            client = self._connected()
            if client.cluster.leader_for_partition(place) in (None, -1):
                client.cluster.add_topic(topic)
                limit_ms = int(self.timeout_s * 1000)
                client.poll(timeout_ms=limit_ms, future=client.cluster.request_update())
            found = client.cluster.leader_for_partition(place)
        if found in (None, -1):
            self.close()
            raise KafkaUnavailable(f"partition {topic}-{partition} has no leader")
        return int(found)

    def end(self, topic: str, partition: int) -> int:
        """Return the offset behind a partition's last record, even of an open transaction.

        Raises:
            KafkaUnavailable: the partition has no leader now.
        """
        of_topic = ListOffsetsRequest.ListOffsetsTopic
        asked = of_topic.ListOffsetsPartition(partition_index=partition, timestamp=_LATEST)
        question = ListOffsetsRequest(
            isolation_level=_UNCOMMITTED,
            topics=[of_topic(name=topic, partitions=[asked])],
            min_version=1,
            max_version=3,
        )
        answer = self.ask(self.leader(topic, partition), question)
        (found,) = answer.topics[0].partitions
        if found.error_code:
            self.close()
            error = for_code(found.error_code)
            why = fault_of(error(topic), operation="Describe")
            said = error.__name__ if why is None else why.said
            raise KafkaUnavailable(f"Kafka: {said} for {topic}-{partition}").because(why)
        return int(found.offset)

    def find_coordinator(self, name: str, kind: int) -> Any:
        """Return Kafka's answer about the broker that has a name: its node id, or an error's code.

        Args:
            kind: `GROUP` or `TRANSACTION`.

        Raises:
            KafkaUnavailable: there was no answer.
        """
        question = FindCoordinatorRequest(key=name, key_type=kind, max_version=3)
        with self._faults():
            node_id = self._connected().least_loaded_node(bootstrap_fallback=True)
        answer = self.ask(node_id, question)
        # The broker may be a new one.
        if not answer.error_code:
            with self._faults():
                client = self._connected()
                if client.cluster.broker_metadata(answer.node_id) is None:
                    limit_ms = int(self.timeout_s * 1000)
                    client.poll(timeout_ms=limit_ms, future=client.cluster.request_update())
        return answer

    def transaction_coordinator(self, name: str) -> int:
        """Return the broker that has a transactional id.

        Raises:
            KafkaUnavailable: there is no such broker now.
        """
        answer = self.find_coordinator(name, TRANSACTION)
        if answer.error_code:
            error = for_code(answer.error_code)
            if (why := fault_of(error(name))) is not None:
                raise KafkaUnavailable(f"Kafka: {why.said}").because(why)
            raise CoordinatorAway(f"Kafka: {error.__name__}")
        return int(answer.node_id)

    def close(self) -> None:
        """Close the connections; a later question makes new ones."""
        client, self._client = self._client, None
        if client is not None:
            client.close()

    def _connected(self) -> Any:
        if self._client is None:
            limit_ms = int(self.timeout_s * 1000)
            with closed_at_a_fault() as connect:
                client = connect(
                    **self._settings.connection(),
                    request_timeout_ms=limit_ms,
                    reconnect_backoff_max_ms=1000,
                )
                client.check_version(timeout_ms=limit_ms)
            self._client = client
        return self._client

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            with faults(self._settings):
                yield
        except KafkaUnavailable:
            self.close()
            raise
