"""Who has joined a consumer group, by the broker's own account."""

from __future__ import annotations

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

STABLE = "Stable"


def members_of(bootstrap_servers: str, group: str) -> int:
    """Return how many members a group has that is at rest; 0 while it rebalances."""
    try:
        with KafkaAdminClient(bootstrap_servers=bootstrap_servers) as admin:
            found = admin.describe_groups([group])[group]
    except KafkaError:
        return 0
    return len(found["members"]) if found["group_state"] == STABLE else 0
