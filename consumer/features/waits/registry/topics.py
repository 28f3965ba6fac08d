"""Which wait topics there are, and their faults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from consumer.features.waits.record import source_topic, wait_topic
from feedback.errors import NotAvailable
from feedback.kafka.admin import administrator
from feedback.kafka.administrator import Administrator, TopicDescription
from feedback.kafka.topics import CLEANUP, COMPACT, topic_setting
from feedback.logs import EventLog
from feedback.settings.settings import KafkaSection

log = EventLog("onceward.waits")

TIMEOUT_S = 10.0


class WaitTopic(NamedTuple):
    """A wait topic.

    Args:
        source: the topic whose requests wait there.
        topic_id: Kafka's own; one that was deleted and made anew has another.
        partitions: how many it has.
    """

    name: str
    source: str
    topic_id: str
    partitions: int


class WaitTopics:
    """Looks for wait topics; says each fault once. Belongs to one thread.

    Args:
        settings: brokers, security and group.
        wanted: the topics whose requests are meant; all of the group by default.
    """

    def __init__(self, settings: KafkaSection, wanted: Collection[str] = ()) -> None:
        self._settings = settings
        self._wanted = frozenset(wanted)
        self._said: set[tuple[str, str]] = set()
        self._has_looked = False

    def find(self) -> dict[str, WaitTopic]:
        """Return the wait topics that are there now, by name.

        Raises:
            KafkaUnavailable: Kafka did not answer.
            NotAvailable: a topic was named that does not exist at all, at the first look.
        """
        with administrator(self._settings, timeout_s=TIMEOUT_S) as admin:
            there = admin.topics()
            names = self._names(there)
            asked = sorted(names | {self._source(name) for name in names} & there)
            described = {
                name: one
                for name, one in admin.describe(asked).items()
                if isinstance(one, TopicDescription)
            }
            self._check(admin, described.keys() & names, described)
        self._has_looked = True
        return {
            name: WaitTopic(
                name,
                self._source(name),
                described[name].topic_id,
                len(described[name].partitions),
            )
            for name in sorted(described.keys() & names)
        }

    def _names(self, there: Collection[str]) -> set[str]:
        group = self._settings.group
        if not self._wanted:
            return {name for name in there if source_topic(name, group) is not None}
        names = {wait_topic(one, group): one for one in sorted(self._wanted)}
        for name, source in names.items():
            if name in there:
                continue
            if source not in there and not self._has_looked:
                raise NotAvailable(f"there is no topic {source}: is its name right?")
            self._warn("waits.topic_missing", name)
        return set(names) & set(there)

    def _source(self, name: str) -> str:
        return source_topic(name, self._settings.group) or name

    def _check(
        self,
        admin: Administrator,
        names: Collection[str],
        described: Mapping[str, TopicDescription],
    ) -> None:
        for name in sorted(set(names) - {name for _, name in self._said}):
            source = described.get(self._source(name))
            mine = len(described[name].partitions)
            if source is not None and mine != len(source.partitions):
                of_source = len(source.partitions)
                self._warn("waits.other_partitions", name, partitions=mine, of_source=of_source)
            policy = topic_setting(admin, name, CLEANUP)
            if policy is not None and COMPACT not in policy:
                # Retention would take away requests that wait for longer.
                self._warn("waits.not_compacted", name, cleanup_policy=policy)
            self._said.add(("", name))

    def _warn(self, event: str, name: str, **facts: object) -> None:
        if (event, name) not in self._said:
            self._said.add((event, name))
            log.warning(event, topic=name, **facts)
