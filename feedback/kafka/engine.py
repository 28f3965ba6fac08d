"""An engine: what a library makes of our connections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from feedback.kafka.administrator import Administrator
from feedback.kafka.fencing import Fences
from feedback.kafka.member import GroupMember, PartitionOwner
from feedback.kafka.partition_reader import PartitionReader, ReadingPlan
from feedback.kafka.probes import RightsProbe, SilenceProbe
from feedback.kafka.producer import BatchProducer
from feedback.kafka.sending import KafkaSender, OrderedSender, SendingPlan
from feedback.settings.settings import KafkaSection


class ClientSenders(NamedTuple):
    """Makes the senders of clients; the ordered one is given how long a result is waited for."""

    single: Callable[[KafkaSection, SendingPlan], KafkaSender]
    ordered: Callable[[KafkaSection, float], OrderedSender]


class Engine(NamedTuple):
    """What a library makes of our connections.

    Attributes:
        spacing_s: how long a member that reads few records may wait for more: a poll and its commit
            cost as much processor for one record as for many, and with one library milliseconds.
        senders: of clients, of a broker in this process alone: `feedback.kafka.sending` says why.
    """

    name: str
    member: Callable[[KafkaSection, Sequence[str], PartitionOwner], GroupMember]
    reader: Callable[[KafkaSection, ReadingPlan], PartitionReader]
    administrator: Callable[[KafkaSection, float], Administrator]
    producer: Callable[[KafkaSection, float], BatchProducer]
    fences: Callable[[KafkaSection], Fences]
    rights: Callable[[KafkaSection, float], RightsProbe]
    silences: Callable[[KafkaSection], SilenceProbe]
    spacing_s: float
    senders: ClientSenders | None = None
