"""The dead letters of a stage, read from its topics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from feedback.kafka.kafka_python.records import record_of
from feedback.records.envelope import Record
from tests.consumer.stage import Stage
from tests.eventually import eventually

LIMIT_S = 60.0


class Box:
    """What lies in `<topic>.<group>.dlq` of a stage.

    Args:
        stage: the group.
        kafka: where its broker is.
    """

    def __init__(self, stage: Stage, kafka: str) -> None:
        self.stage = stage
        self.kafka = kafka

    def name(self, handler: str = "work") -> str:
        """Return the name of a handler's dead letter topic."""
        return f"{self.stage.topics[handler]}.{self.stage.group}.dlq"

    def exists(self, handler: str = "work") -> bool:
        """Whether that topic exists."""
        with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
            return self.name(handler) in admin.list_topics()

    def make(self, handler: str = "work", *, limit_bytes: int | None = None) -> None:
        """Make that topic as a person does."""
        configs = {} if limit_bytes is None else {"max.message.bytes": str(limit_bytes)}
        made = {"num_partitions": 1, "replication_factor": 1, "configs": configs}
        with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
            admin.create_topics({self.name(handler): made})
            admin.wait_for_topics([self.name(handler)])

    def letters(self, handler: str = "work") -> list[Record]:
        """Return all letters there are now."""
        if not self.exists(handler):
            return []
        consumer = KafkaConsumer(bootstrap_servers=self.kafka, max_partition_fetch_bytes=10**7)
        try:
            # Asked of the broker: a consumer of its own does not know the topic yet.
            with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
                (topic,) = admin.describe_topics([self.name(handler)])
            numbers = [one["partition_index"] for one in topic["partitions"]]
            places = [TopicPartition(self.name(handler), number) for number in numbers]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            found: list[Record] = []
            while any(consumer.position(one) < ends[one] for one in places):
                for records in consumer.poll(timeout_ms=200).values():
                    found += [record_of(one) for one in records]
            return found
        finally:
            consumer.close()

    def counted(self, handler: str = "work") -> Counter[str]:
        """Return how many letters each request has, by the id in its header."""
        return Counter(header(one, "onceward-request-id") for one in self.letters(handler))

    def letter(self, request_id: str, handler: str = "work") -> Record:
        """Return the only letter of a request, waiting until the journal says that it is there."""
        self.closed([request_id])
        (found,) = (
            one for one in self.letters(handler) if header(one, "onceward-request-id") == request_id
        )
        return found

    def closed(self, request_ids: Sequence[str]) -> None:
        """Return when none of these waits for its letter any more."""
        eventually(
            lambda: all(self.is_closed(one) for one in request_ids),
            timeout_s=LIMIT_S,
            what="dead letters that are written",
        )

    def is_closed(self, request_id: str) -> bool:
        """Whether the journal says that a request waits for no letter."""
        row = self.stage.row(request_id)
        return row is not None and row["dead_letter_at"] is not None


def header(record: Record, name: str) -> str:
    """Return the only header of this name, as text."""
    (value,) = (value for found, value in record.headers if found == name)
    return value.decode("utf-8")


def headers(record: Record) -> dict[str, str]:
    """Return all headers as text; the last of a name wins."""
    return {name: value.decode("utf-8") for name, value in record.headers}
