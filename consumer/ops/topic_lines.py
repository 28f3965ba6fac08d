"""A needed topic as a line, for a person and as JSON. Pure."""

from __future__ import annotations

import json

from consumer.ops.topics import TopicState
from feedback.console.plurals import counted


def topic_as_json(one: TopicState) -> str:
    """Return a line of JSON."""
    facts = one.facts
    return json.dumps(
        {
            "topic": one.topic.name,
            "purpose": one.topic.purpose,
            "partitions": one.partitions,
            "replicas": facts.replicas if facts else 0,
            "settings": dict(facts.settings) if facts else {},
            "rights": sorted(facts.rights) if facts else [],
            "created": one.is_new,
            "fault": one.fault or None,
        }
    )


def topic_as_text(one: TopicState) -> str:
    """Return a line for a person; settings have Kafka's names."""
    words = [one.topic.name, one.topic.purpose, one.fault or ("created" if one.is_new else "there")]
    if (facts := one.facts) is not None:
        words.append(counted(facts.partitions, "partition"))
        words.append(f"on {counted(facts.replicas, 'broker')}")
        words += [f"{name}={value}" for name, value in facts.settings.items()]
        words.append(f"rights {','.join(sorted(facts.rights)) or 'not known'}")
    return "  ".join(words)
