"""Members of a group for the tests of the contract, and what they were told."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

import pytest
from kafka import KafkaProducer

from feedback.errors import KafkaUnavailable
from feedback.kafka.confluent import connection, topic_counts
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault
from feedback.kafka.member import GroupMember, PartitionOwner
from feedback.kafka.values import Partition
from feedback.records.envelope import Record
from feedback.settings import sections
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually

ENGINES = ("kafka-python", "confluent")
LIMIT_S = 60.0
POLL_S = 0.05
MOST = 500


def look_often(patch: pytest.MonkeyPatch) -> None:
    """Let either engine ask for its topics every two seconds, and not every thirty."""
    for module in (sections, connection, topic_counts):
        patch.setattr(module, "METADATA_MAX_AGE_MS", 2000)


class Told:
    """A member, and what its owner heard.

    Attributes:
        paused: partitions that the owner wants paused as they come.
        again: offsets that the owner wants committed for the next owner.
    """

    def __init__(self, settings: KafkaSection, *topics: str) -> None:
        self.paused: set[Partition] = set()
        self.again: dict[Partition, int] = {}
        self.taken: list[Collection[Partition]] = []
        self.given_up: list[Collection[Partition]] = []
        self.handed: list[tuple[Mapping[Partition, int], str]] = []
        owner = PartitionOwner(self._take, self._give_up, lambda *one: self.handed.append(one))
        self.member: GroupMember = engine_of(settings).member(settings, topics, owner)

    def _take(self, assigned: Collection[Partition]) -> Collection[Partition]:
        self.taken.append(assigned)
        return self.paused.intersection(assigned)

    def _give_up(self, revoked: Collection[Partition]) -> Mapping[Partition, int]:
        self.given_up.append(revoked)
        return {one: offset for one, offset in self.again.items() if one in revoked}

    def poll(self, timeout_s: float | None = None) -> list[Record]:
        """Poll once."""
        return self.member.poll(POLL_S if timeout_s is None else timeout_s, max_records=MOST)

    def read(self, count: int, *, after_outage: bool = False) -> list[Record]:
        """Poll until so many records came.

        Args:
            after_outage: a poll may still say that a question of before had no answer.
        """
        found: list[Record] = []

        def is_all() -> bool:
            with suppress(*([KafkaFault] if after_outage else [])):
                found.extend(self.poll())
            return len(found) >= count

        eventually(is_all, timeout_s=LIMIT_S)
        return found

    def join(self, count: int) -> None:
        """Poll until it has so many partitions in a stable group; no record may come."""

        def is_there() -> bool:
            assert self.poll() == []
            return len(self.member.assigned()) == count and self.member.is_stable()

        eventually(is_there, timeout_s=LIMIT_S)

    def close(self) -> None:
        """Leave the group, where a broker is there."""
        with suppress(KafkaUnavailable):
            self.member.close()


MakeMember = Callable[..., Told]


def write(bootstrap_servers: str, topic: str, values: Sequence[bytes], **given: Any) -> None:
    """Write values to partition 0, or to another one."""
    producer = KafkaProducer(bootstrap_servers=bootstrap_servers)
    for value in values:
        producer.send(topic, value, **{"partition": 0} | given)
    producer.flush()
    producer.close()
