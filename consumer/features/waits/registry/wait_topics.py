"""Which wait topics there are, and their faults."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from consumer.features.waits.wait_record import source_topic, wait_topic
from feedback.errors import NotAvailable
from feedback.kafka.admin import administrator
from feedback.kafka.administrator import Administrator, TopicDescription
from feedback.kafka.errors import TopicRefused
from feedback.kafka.sight import why_unseen
from feedback.kafka.topics import CLEANUP, COMPACT, topic_setting
from feedback.logs import EventLog
from feedback.outages import OutageLog
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.rights.needed import KafkaRight, Resource
from feedback.settings.settings import KafkaSection, Settings


def group_of(group: str) -> str:
    """Return the consumer group of a group's registries.

    >>> group_of("payments")
    'payments.expire'
    """
    return f"{group}.expire"


def transactional_prefix(group: str) -> str:
    """Return the beginning of their transactional ids; topic and partition follow.

    >>> transactional_prefix("payments")
    'onceward.payments.expire.'
    """
    return f"onceward.{group_of(group)}."


_READ, _WRITE = frozenset({"Read"}), frozenset({"Write"})
_CONFIGS, _DESCRIBE = frozenset({"DescribeConfigs"}), frozenset({"Describe"})


def registry_rights(settings: Settings, sources: Collection[str]) -> list[KafkaRight]:
    """Return the rights of a registry.

    Args:
        sources: the topics whose requests wait.

    Raises:
        SettingsError: a name would be longer than Kafka allows.
    """
    group = settings.kafka.group
    making = frozenset({"Create"}) if settings.worker.create_topics else frozenset()
    rights: list[KafkaRight] = []
    for one in sources:
        letters = dead_letter_topic(one, group)
        rights += [
            KafkaRight(Resource.TOPIC, wait_topic(one, group), _READ | _WRITE, _CONFIGS),
            KafkaRight(Resource.TOPIC, letters, _READ | _WRITE | making),
            KafkaRight(Resource.TOPIC, one, _DESCRIBE, _CONFIGS),
        ]
    name = transactional_prefix(group)
    return [
        *rights,
        KafkaRight(Resource.GROUP, group_of(group), _READ),
        KafkaRight(Resource.TRANSACTIONAL_ID, name, _WRITE, is_prefix=True),
    ]


log = EventLog("onceward.waits")

TIMEOUT_S = 10.0


class WaitTopic(NamedTuple):
    """A wait topic.

    Args:
        source: the topic whose requests wait there.
        topic_id: Kafka's own; one that was deleted and made anew has another.
    """

    name: str
    source: str
    topic_id: str
    partitions: int


class WaitTopics:
    """Looks for wait topics; says each fault once. Belongs to one thread.

    Args:
        wanted: the topics whose requests are meant; all of the group by default.
    """

    def __init__(self, settings: KafkaSection, wanted: Collection[str] = ()) -> None:
        self._settings = settings
        self._wanted = frozenset(wanted)
        self._said: set[tuple[str, str]] = set()
        self._refusals: dict[str, OutageLog] = {}
        self._has_looked = False

    @property
    def refusal(self) -> str:
        """Which wait topics this user may not even see, in sentences; empty where there is none."""
        return "; ".join(one.refusal for one in self._refusals.values() if one.is_on)

    def find(self, known: Collection[str] = ()) -> dict[str, WaitTopic]:
        """Return the wait topics that are there now, by name.

        Args:
            known: wait topics that were read before. Kafka lists none that this user may not see,
                so each is asked for by its name. Where nothing is known and none is seen, it is
                asked whether this user could see one.

        Raises:
            NotAvailable: a topic was named that does not exist at all, at the first look.
        """
        with administrator(self._settings, timeout_s=TIMEOUT_S) as admin:
            there = admin.topics()
            refused = self._look_for_refused(admin, there, known)
            names = self._names(there, refused)
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

    def _look_for_refused(
        self, admin: Administrator, there: Collection[str], known: Collection[str]
    ) -> Collection[str]:
        """Return the wait topics that this user may not see; log each once, and its return."""
        wanted = [*map(self._waits_of, self._wanted)]
        found = admin.describe(set(wanted or known).difference(there))
        refused = {name: one for name, one in found.items() if isinstance(one, TopicRefused)}
        if not (wanted or known or self._names(there, ())):
            unseen = why_unseen(admin, there, self._waits_of)
            refused |= {} if unseen is None else {self._waits_of("<topic>"): unseen}
        for name, fault in refused.items():
            new = OutageLog(log, "waits.topic_missing", "waits.topic_back")
            self._refusals.setdefault(name, new).begins(fault, topic=name)
        for name in self._refusals.keys() - refused.keys():
            self._refusals.pop(name).ends(topic=name)
        return refused

    def _waits_of(self, topic: str) -> str:
        return wait_topic(topic, self._settings.group)

    def _names(self, there: Collection[str], refused: Collection[str]) -> set[str]:
        group = self._settings.group
        if not self._wanted:
            return {name for name in there if source_topic(name, group) is not None}
        names = {self._waits_of(one): one for one in sorted(self._wanted)}
        for name in names.keys() - {*there, *refused}:
            source = names[name]
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
