"""The outcome topic of a stage, read as any program reads it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient

from feedback.kafka.kafka_python.records import record_of
from feedback.records.envelope import Record
from tests.consumer.stage import Stage
from tests.eventually import eventually

LIMIT_S = 60.0


class Told(NamedTuple):
    """One record, with its value and headers read."""

    record: Record
    value: dict[str, Any]
    headers: Mapping[str, str]

    @property
    def run(self) -> tuple[str, int]:
        """Which request, and with which generation it ended."""
        return self.value["request_id"], self.value["generation"]


class Outlet:
    """What lies in `<topic>.outcomes` of a stage.

    Args:
        stage: the group.
        kafka: where its broker is.
    """

    def __init__(self, stage: Stage, kafka: str) -> None:
        self.stage = stage
        self.kafka = kafka

    def name(self, handler: str = "telling") -> str:
        """Return the name of a handler's outcome topic."""
        return f"{self.stage.topics[handler]}.outcomes"

    def described(self, handler: str = "telling") -> dict[str, Any] | None:
        """Return what the broker says of that topic; None when there is none."""
        with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
            if self.name(handler) not in admin.list_topics():
                return None
            (found,) = admin.describe_topics([self.name(handler)])
            return dict(found)

    def make(self, handler: str = "telling", *, limit_bytes: int | None = None) -> None:
        """Make that topic as a person does."""
        configs = {} if limit_bytes is None else {"max.message.bytes": str(limit_bytes)}
        made = {"num_partitions": 2, "replication_factor": 1, "configs": configs}
        with KafkaAdminClient(bootstrap_servers=self.kafka) as admin:
            admin.create_topics({self.name(handler): made})
            admin.wait_for_topics([self.name(handler)])

    def told(self, handler: str = "telling") -> list[Told]:
        """Return all records there are now."""
        return list(self._read(handler))

    def until(self, runs: set[tuple[str, int]], handler: str = "telling") -> list[Told]:
        """Return all records, once the journal says that these are written."""
        eventually(
            lambda: all(self.is_written(*run) for run in runs),
            timeout_s=LIMIT_S,
            what="outcomes that are written",
        )
        return self.told(handler)

    def is_written(self, request_id: str, generation: int = 1) -> bool:
        """Whether the journal says that the outcome of this run is written."""
        row = self.stage.row(request_id)
        return row is not None and row["outcome_generation"] == generation

    def _read(self, handler: str) -> Iterator[Told]:
        topic = self.described(handler)
        if topic is None:
            return
        consumer = KafkaConsumer(bootstrap_servers=self.kafka, max_partition_fetch_bytes=10**7)
        try:
            numbers = [one["partition_index"] for one in topic["partitions"]]
            places = [TopicPartition(self.name(handler), number) for number in numbers]
            consumer.assign(places)
            consumer.seek_to_beginning(*places)
            ends = consumer.end_offsets(places)
            while any(consumer.position(one) < ends[one] for one in places):
                for records in consumer.poll(timeout_ms=200).values():
                    yield from (_told(record_of(one)) for one in records)
        finally:
            consumer.close()


def _told(record: Record) -> Told:
    assert record.value is not None
    headers = {name: value.decode() for name, value in record.headers}
    assert len(headers) == len(record.headers)
    return Told(record, json.loads(record.value), headers)
