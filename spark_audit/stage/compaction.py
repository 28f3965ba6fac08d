"""Which topics are compacted: they forget records by key, so that holes in them say nothing.

A user without the right DescribeConfigs is not told. Such a topic then counts as not compacted, and
a hole in it is named: a finding that a person can explain is better than silence about a loss. A
wait topic is always compacted, whatever can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from feedback.logs import EventLog
from spark_audit.stage.manifest import Kind

_POLICY = "cleanup.policy"

log = EventLog("onceward.audit")


def compacted_of(admin: KafkaAdminClient, kinds: Mapping[str, Kind]) -> tuple[str, ...]:
    """Return the topics that are compacted, by name.

    Args:
        kinds: what each topic is for.

    Raises:
        KafkaError: the broker does not answer.
    """
    asked = [ConfigResource(ConfigResourceType.TOPIC, name, [_POLICY]) for name in sorted(kinds)]
    # "all", with the defaults: so what is not among them could not be seen.
    answer = admin.describe_configs(asked, config_filter="all") if asked else {}
    policies = {
        name: configs[_POLICY]["value"]
        for name, configs in answer.get("topic", {}).items()
        if _POLICY in configs
    }
    unseen = sorted(set(kinds) - set(policies))
    if unseen:
        log.warning("audit.policy_unseen", topics=unseen, needs="DescribeConfigs")
    found = {name for name, policy in policies.items() if "compact" in policy.split(",")}
    return tuple(sorted(found | {name for name, kind in kinds.items() if kind is Kind.WAIT}))
