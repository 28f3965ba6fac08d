"""The engine, as one value, and the opening of a broker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from feedback.kafka.engine import ClientSenders, Engine
from feedback.kafka.in_process import engine_opened_at
from feedback.kafka.member import GroupMember, PartitionOwner
from feedback.kafka.memory.administrator import MemoryAdministrator
from feedback.kafka.memory.broker import MemoryBroker
from feedback.kafka.memory.fence import MemoryFences
from feedback.kafka.memory.member import MemoryMember
from feedback.kafka.memory.ordered_sender import MemoryOrderedSender
from feedback.kafka.memory.partition_reader import MemoryReader
from feedback.kafka.memory.probes import MemoryRightsProbe, MemorySilences
from feedback.kafka.memory.producer import MemoryProducer
from feedback.kafka.memory.sender import KafkaInMemorySender
from feedback.settings.settings import KafkaSection


@contextmanager
def memory_broker(
    *, brokers: int = 1, allows_all: bool = True, longest_wait_s: float = 0.1
) -> Iterator[MemoryBroker]:
    """Yield a broker in memory: settings with its address lead to it, within the block.

    >>> from feedback.kafka.outgoing import Outgoing
    >>> from feedback.kafka.writer import KafkaWriter
    >>> with memory_broker() as broker:
    ...     broker.make_topic("orders")
    ...     writer = KafkaWriter(KafkaSection(bootstrap_servers=broker.address))
    ...     writer.write([Outgoing("orders", 0, b"k", b"v", ())])
    ...     [one.value for one in broker.records("orders")]
    [None]
    [b'v']

    Args:
        brokers, allows_all, longest_wait_s: see `MemoryBroker`.
    """
    broker = MemoryBroker(brokers=brokers, allows_all=allows_all, longest_wait_s=longest_wait_s)
    with engine_opened_at(broker.address, engine_in_memory(broker)):
        yield broker


def engine_in_memory(broker: MemoryBroker) -> Engine:
    """Return the engine whose connections all lead to one broker."""

    def member(settings: KafkaSection, topics: Sequence[str], owner: PartitionOwner) -> GroupMember:
        return MemoryMember(broker, settings, topics, owner)

    return Engine(
        name="memory",
        member=member,
        reader=lambda _, plan: MemoryReader(broker, plan),
        administrator=lambda _, timeout_s: MemoryAdministrator(broker, timeout_s),
        producer=lambda _, timeout_s: MemoryProducer(broker, timeout_s),
        fences=lambda _: MemoryFences(broker),
        rights=lambda _, timeout_s: MemoryRightsProbe(broker, timeout_s),
        silences=lambda _: MemorySilences(broker),
        spacing_s=0.0,
        senders=ClientSenders(
            single=lambda _, plan: KafkaInMemorySender(broker, plan),
            ordered=lambda _, send_timeout_s: MemoryOrderedSender(broker, send_timeout_s),
        ),
    )
