"""Which topics are compacted: they forget records by key, so that holes in them say nothing.

A user without the right DescribeConfigs is not told. Such a topic then counts as not compacted, and
a hole in it is named: a finding that a person can explain is better than silence about a loss. A
wait topic is always compacted.
"""

from __future__ import annotations

from collections.abc import Mapping

from feedback.kafka.questions import KafkaQuestions
from feedback.logs import EventLog
from spark_audit.stage.manifest import TopicKind

_POLICY = "cleanup.policy"

log = EventLog("onceward.audit")


def compacted_of(kafka: KafkaQuestions, kinds: Mapping[str, TopicKind]) -> tuple[str, ...]:
    """Return the topics that are compacted, by name.

    Args:
        kinds: of each topic.
    """
    policies = kafka.configs(kinds, _POLICY)
    unseen = sorted(set(kinds) - set(policies))
    if unseen:
        log.warning("audit.policy_unseen", topics=unseen, needs="DescribeConfigs")
    found = {name for name, policy in policies.items() if "compact" in policy.split(",")}
    return tuple(sorted(found | {name for name, kind in kinds.items() if kind is TopicKind.WAIT}))
