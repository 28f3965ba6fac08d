"""The topics of a run: created, and asked how many records they have been sent."""

from types import TracebackType
from typing import Self

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import KafkaError

from feedback.errors import NotAvailable

PARTITIONS = 8
KAFKA_TIMEOUT_MS = 10_000
# They may get partitions.
METADATA_MS = 2_000


class Topics:
    """New topics.

    Raises:
        NotAvailable: Kafka does not answer.
    """

    def __init__(self, bootstrap_servers: str, *names: str, replication: int = 1) -> None:
        self._names = names
        connection = {
            "bootstrap_servers": bootstrap_servers,
            "bootstrap_timeout_ms": KAFKA_TIMEOUT_MS,
        }
        try:
            with KafkaAdminClient(**connection) as admin:
                admin.create_topics([NewTopic(name, PARTITIONS, replication) for name in names])
                admin.wait_for_topics(list(names))
            self._consumer = KafkaConsumer(
                **connection, enable_auto_commit=False, metadata_max_age_ms=METADATA_MS
            )
        except KafkaError as error:
            raise NotAvailable(f"Kafka at {bootstrap_servers}: {type(error).__name__}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close(autocommit=False)

    def records(self) -> int:
        """Return how many records were ever sent to them, resends and all.

        Raises:
            NotAvailable: Kafka does not answer.
        """
        partitions = [
            TopicPartition(name, number)
            for name in self._names
            for number in self._consumer.partitions_for_topic(name) or ()
        ]
        try:
            ends: dict[TopicPartition, int] = self._consumer.end_offsets(partitions)
        except KafkaError as error:
            named = ", ".join(self._names)
            raise NotAvailable(f"Kafka does not say where {named} ends: {error}") from error
        return sum(ends.values())
