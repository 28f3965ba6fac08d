"""Questions and requests about topics and groups, on kafka-python."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from kafka import TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, MemberToRemove
from kafka.errors import KafkaError, NoError, UnknownMemberIdError, for_code
from kafka.protocol.consumer import IsolationLevel, OffsetSpec

from feedback.kafka.administrator import NewTopic, OffsetMark, TopicDescription
from feedback.kafka.errors import KafkaFault, TopicExists
from feedback.kafka.kafka_python.admin import connect_administrator
from feedback.kafka.kafka_python.faults import fault_from, faults
from feedback.kafka.values import Partition
from feedback.settings.settings import KafkaSection

_MARKS = {
    OffsetMark.BEGIN: (OffsetSpec.EARLIEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetMark.END: (OffsetSpec.LATEST, IsolationLevel.READ_UNCOMMITTED),
    OffsetMark.COMMITTED_END: (OffsetSpec.LATEST, IsolationLevel.READ_COMMITTED),
}


class KafkaPythonAdministrator:
    """See `feedback.kafka.administrator.Administrator`.

    Args:
        settings: brokers and security.
        timeout_s: how long Kafka may take for the connection, and for one answer.
    """

    def __init__(self, settings: KafkaSection, timeout_s: float) -> None:
        self._settings = settings
        self._limit_ms = max(1, int(timeout_s * 1000))
        with faults(settings):
            self._admin: Any = connect_administrator(settings, timeout_s=timeout_s)

    def cluster_id(self) -> str:
        """Return the id of the cluster."""
        with faults(self._settings):
            return str(self._admin.describe_cluster().get("cluster_id") or "")

    def topics(self) -> frozenset[str]:
        """Return the names of all topics that this user may see."""
        with faults(self._settings):
            return frozenset(self._admin.list_topics())

    def describe(self, names: Collection[str]) -> dict[str, TopicDescription | KafkaFault]:
        """Return the description of each topic, or why Kafka does not give it."""
        if not names:
            return {}
        with faults(self._settings):
            found = self._admin.describe_topics(sorted(names))
        return {one["name"]: self._described(one) for one in found}

    def configs(self, topics: Collection[str], names: Collection[str]) -> dict[str, dict[str, str]]:
        """Return settings of topics."""
        asked = [ConfigResource(ConfigResourceType.TOPIC, one, [*names]) for one in sorted(topics)]
        if not asked:
            return {}
        with faults(self._settings):
            # "all" includes the defaults: without them a topic with the default setting would look
            # hidden. Refused topics are left out.
            answer = self._admin.describe_configs(asked, config_filter="all")
        return {
            topic: {name: str(one["value"]) for name, one in of_topic.items()}
            for topic, of_topic in answer.get("topic", {}).items()
        }

    def make(
        self, topics: Mapping[str, NewTopic], *, only_rehearse: bool = False
    ) -> dict[str, KafkaFault]:
        """Make topics; return the refusals when brokers know the others."""
        wanted = {name: _options(one) for name, one in topics.items()}
        with faults(self._settings):
            answer = self._admin.create_topics(
                wanted,
                timeout_ms=self._limit_ms,
                validate_only=only_rehearse,
                raise_errors=False,
            )
            refused = {
                one["name"]: self._refused(one) for one in answer["topics"] if one["error_code"]
            }
            if not only_rehearse:
                # One that exists may have been made a moment ago.
                lost = {name for name, why in refused.items() if not isinstance(why, TopicExists)}
                known = [*topics.keys() - lost]
                self._admin.wait_for_topics(known, timeout_ms=self._limit_ms)
        return refused

    def delete_topics(self, names: Collection[str]) -> None:
        """Delete topics."""
        with faults(self._settings):
            self._admin.delete_topics([*names])

    def groups(self) -> frozenset[str]:
        """Return the names of all groups that this user may see."""
        with faults(self._settings):
            return frozenset(one["group_id"] for one in self._admin.list_groups())

    def delete_groups(self, names: Collection[str]) -> None:
        """Delete groups without members."""
        with faults(self._settings):
            self._admin.delete_groups([*names])

    def remove_member(self, group: str, member_id: str) -> None:
        """Remove a member of a group, as if it had left."""
        with faults(self._settings):
            gone = MemberToRemove(member_id=member_id)
            for error in self._admin.remove_group_members(group, [gone]).values():
                if error not in (NoError, UnknownMemberIdError):
                    raise error(member_id)

    def offsets(self, partitions: Collection[Partition], mark: OffsetMark) -> dict[Partition, int]:
        """Return the offset of each partition at a mark."""
        return self._offsets(partitions, *_MARKS[mark])

    def offsets_at(self, partitions: Collection[Partition], epoch_ms: int) -> dict[Partition, int]:
        """Return the offset of the first record that is not before a time."""
        return self._offsets(partitions, epoch_ms, IsolationLevel.READ_UNCOMMITTED)

    def group_offsets(
        self, asked: Mapping[str, Collection[Partition] | None]
    ) -> dict[Partition, int]:
        """Return the offsets that groups have committed."""
        wanted = {
            group: None if partitions is None else [TopicPartition(*one) for one in partitions]
            for group, partitions in asked.items()
            if partitions is None or partitions
        }
        if not wanted:
            return {}
        with faults(self._settings):
            found = self._admin.list_group_offsets(wanted)
        return {
            (*one,): mark.offset
            for marks in found.values()
            for one, mark in marks.items()
            if mark.offset >= 0
        }

    def close(self) -> None:
        """Close the connection."""
        self._admin.close()

    def _offsets(
        self, partitions: Collection[Partition], spec: int, isolation: IsolationLevel
    ) -> dict[Partition, int]:
        if not partitions:
            return {}
        asked = {TopicPartition(*one): spec for one in partitions}
        with faults(self._settings):
            answers = self._admin.list_partition_offsets(
                asked, isolation_level=isolation, timeout_ms=self._limit_ms
            )
        return {(*one,): answer.offset for one, answer in answers.items()}

    def _described(self, found: Mapping[str, Any]) -> TopicDescription | KafkaFault:
        if found["error_code"]:
            return self._refused(found)
        partitions = found["partitions"]
        return TopicDescription(
            name=found["name"],
            topic_id=str(found.get("topic_id") or ""),
            partitions=tuple(one["partition_index"] for one in partitions),
            replicas=len(partitions[0]["replica_nodes"]) if partitions else 0,
            rights=frozenset(found.get("authorized_operations") or ()),
        )

    def _refused(self, found: Mapping[str, Any]) -> KafkaFault:
        error: KafkaError = for_code(found["error_code"])(found["name"])
        return fault_from(error, self._settings)


def _options(one: NewTopic) -> dict[str, Any]:
    given = {
        "num_partitions": one.partitions,
        "replication_factor": one.replicas,
        "configs": dict(one.configs) or None,
    }
    return {name: value for name, value in given.items() if value is not None}
