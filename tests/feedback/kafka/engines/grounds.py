"""The broker that a test of the contract stands on: a real one, or one in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple, Protocol

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic

from feedback.kafka.kafka_python.fence import KafkaPythonFences
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.transaction import MemoryTransaction, TransactionState
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.values import Partition
from feedback.records.envelope import NullHeader
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.members import write
from tests.stack.restartable import Restartable
from tests.transactions import Transactions

# A header's name that is not UTF-8, and how it is read.
ODD_NAME, READ_NAME = b"na\xffe", "na\ufffde"


# Appends a record to partition 0 and returns its offset.
Produce = Callable[..., int]


def settings_at(address: str, engine: str, group: str) -> KafkaSection:
    """Return settings for a broker, an engine and a group."""
    given = {"bootstrap_servers": address, "client": engine, "group": group}
    return KafkaSection.model_validate(given)


class SpreadRecord(NamedTuple):
    """A record of any partition, with its time."""

    value: bytes
    partition: int
    timestamp_ms: int


class ForeignWriter(Protocol):
    """Writes to partition 0 within transactions; each call is at the broker when it returns."""

    def write(self, topic: str, *values: bytes) -> None:
        """Begin a transaction and write these; it stays open."""

    def commit(self) -> None:
        """End it: all of it is there."""

    def abort(self) -> None:
        """End it: nothing of it ever was."""


class Ground(Protocol):
    """A broker, and what others do there meanwhile.

    Attributes:
        shortest_still_s: the shortest time for which it lets a member stand still.
    """

    shortest_still_s: float

    @property
    def address(self) -> str:
        """Where it is, also while it is down."""

    def make_topic(self, name: str, partitions: int) -> None:
        """Make a topic, and return when it is there."""

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""

    def replicas(self, topic: str) -> list[int]:
        """Return how many copies each partition has."""

    def setting(self, topic: str, name: str) -> str:
        """Return a setting of a topic, as the broker has it."""

    def members(self, group: str) -> set[str]:
        """Return the names of a group's members."""

    def delete_records(self, place: Partition, before: int) -> None:
        """Delete the records of a partition before an offset."""

    def write(self, topic: str, values: Sequence[bytes], **given: Any) -> None:
        """Write values to partition 0, or to another one."""

    def spread(self, topic: str, records: Iterable[SpreadRecord]) -> None:
        """Write many records."""

    def headers(self, topic: str, count: int) -> list[list[tuple[str, bytes | None]]]:
        """Return the headers of the first records of partition 0, as other programs read them."""

    def write_odd_name(self, topic: str) -> None:
        """Write a record `odd` with a header of an odd name, and one after it."""

    def transactions(self) -> AbstractContextManager[ForeignWriter]:
        """Yield a foreign program."""

    def down(self) -> AbstractContextManager[None]:
        """Be dead for the length of the block."""

    def paused(self) -> AbstractContextManager[None]:
        """Stand still for the length of the block."""


class RealGround:
    """A broker of its own process.

    Args:
        server: what may be killed; None for one that others use too.
    """

    # A broker takes no shorter session.
    shortest_still_s = 6.0

    def __init__(self, address: str, server: Restartable | None = None) -> None:
        self._address = address
        self._server = server

    @property
    def address(self) -> str:
        """Where it is, also while it is down."""
        return self._address if self._server is None else self._server.address

    def make_topic(self, name: str, partitions: int) -> None:
        """Make a topic."""
        with self._admin() as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])
            admin.wait_for_topics([name])

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        with self._admin() as admin:
            admin.delete_topics([name])

    def replicas(self, topic: str) -> list[int]:
        """Return how many copies each partition has."""
        with self._admin() as admin:
            (found,) = admin.describe_topics([topic])
        return [len(one["replica_nodes"]) for one in found["partitions"]]

    def setting(self, topic: str, name: str) -> str:
        """Return a setting of a topic, as the broker has it."""
        with self._admin() as admin:
            wanted = ConfigResource(ConfigResourceType.TOPIC, topic, [name])
            found = admin.describe_configs([wanted], config_filter="all")
        return str(found["topic"][topic][name]["value"])

    def members(self, group: str) -> set[str]:
        """Return the names of a group's members."""
        with self._admin() as admin:
            found = admin.describe_groups([group])[group]
        return {one["member_id"] for one in found["members"]}

    def delete_records(self, place: Partition, before: int) -> None:
        """Delete the records of a partition before an offset."""
        with self._admin() as admin:
            admin.delete_records({TopicPartition(*place): before})

    def write(self, topic: str, values: Sequence[bytes], **given: Any) -> None:
        """Write values to partition 0, or to another one."""
        write(self.address, topic, values, **given)

    def spread(self, topic: str, records: Iterable[SpreadRecord]) -> None:
        """Write many records."""
        producer = KafkaProducer(bootstrap_servers=self.address)
        for value, partition, timestamp_ms in records:
            producer.send(topic, value, partition=partition, timestamp_ms=timestamp_ms)
        producer.flush()
        producer.close()

    def headers(self, topic: str, count: int) -> list[list[tuple[str, bytes | None]]]:
        """Return the headers of the first records of partition 0, as kafka-python reads them."""
        place = TopicPartition(topic, 0)
        where = {"bootstrap_servers": self.address, "consumer_timeout_ms": 20_000}
        with KafkaConsumer(**where) as plain:
            plain.assign([place])
            plain.seek(place, 0)
            return [next(plain).headers for _ in range(count)]

    def write_odd_name(self, topic: str) -> None:
        """Write a record with an odd header, and a mark before it."""

        class Name(str):
            """A header's name that is encoded into other bytes."""

            def encode(self, *_: object) -> bytes:
                return ODD_NAME

        fences = KafkaPythonFences(KafkaSection(bootstrap_servers=self.address))
        fence = fences.fence(f"odd-{topic}")
        fence.take([(topic, 0)])
        odd = Outgoing(topic, 0, b"k", b"odd", ((Name("name"), b"1"), ("after", b"2")))
        assert fence.write(topic, 0, [odd], before_each=lambda: None) == [None]
        fences.close()

    def transactions(self) -> AbstractContextManager[ForeignWriter]:
        """Yield a foreign program."""
        return Transactions(self.address)

    def down(self) -> AbstractContextManager[None]:
        """Be killed for the length of the block."""
        assert self._server is not None
        return self._server.down()

    def paused(self) -> AbstractContextManager[None]:
        """Be stopped for the length of the block."""
        assert self._server is not None
        return self._server.paused()

    def _admin(self) -> KafkaAdminClient:
        return KafkaAdminClient(bootstrap_servers=self.address)


class MemoryGround:
    """A broker in memory."""

    shortest_still_s = 0.2

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self.address = broker.address
        self.make_topic: Callable[[str, int], None] = broker.make_topic
        self.delete_topic = broker.delete_topic
        self.down = broker.down
        self.paused = broker.paused

    def replicas(self, topic: str) -> list[int]:
        """Return how many copies each partition has."""
        found = self._broker.topics[topic]
        return [found.replicas for _ in found.logs]

    def setting(self, topic: str, name: str) -> str:
        """Return a setting of a topic, as the broker has it."""
        return self._broker.topics[topic].settings[name]

    def members(self, group: str) -> set[str]:
        """Return the names of a group's members."""
        return {*self._broker.group(group).member_ids}

    def delete_records(self, place: Partition, before: int) -> None:
        """Delete the records of a partition before an offset."""
        self._broker.delete_records(place, before)

    def write(self, topic: str, values: Sequence[bytes], **given: Any) -> None:
        """Write values to partition 0, or to another one."""
        for value in values:
            self._broker.append(topic, value, **given)

    def spread(self, topic: str, records: Iterable[SpreadRecord]) -> None:
        """Write many records."""
        for value, partition, timestamp_ms in records:
            self._broker.append(topic, value, partition=partition, timestamp_ms=timestamp_ms)

    def headers(self, topic: str, count: int) -> list[list[tuple[str, bytes | None]]]:
        """Return the headers of the first records of partition 0."""
        return [
            [(name, None if isinstance(one, NullHeader) else one) for name, one in record.headers]
            for record in self._broker.records(topic)[:count]
        ]

    def write_odd_name(self, topic: str) -> None:
        """Write a record with an odd header."""
        headers: list[tuple[str | bytes, bytes]] = [(ODD_NAME, b"1"), ("after", b"2")]
        self._broker.append(topic, b"odd", key=b"k", headers=headers)

    @contextmanager
    def transactions(self) -> Iterator[ForeignWriter]:
        """Yield a foreign program."""
        yield MemoryWriter(self._broker)


class MemoryWriter:
    """Writes within transactions of a broker in memory."""

    def __init__(self, broker: MemoryBroker) -> None:
        self._broker = broker
        self._transaction = MemoryTransaction()

    def write(self, topic: str, *values: bytes) -> None:
        """Begin a transaction and write these; it stays open."""
        self._transaction = MemoryTransaction()
        for value in values:
            self._broker.append(topic, value, transaction=self._transaction)

    def commit(self) -> None:
        """End it: all of it is there."""
        self._broker.end_transaction(self._transaction, TransactionState.COMMITTED)

    def abort(self) -> None:
        """End it: nothing of it ever was."""
        self._broker.end_transaction(self._transaction, TransactionState.ABORTED)
