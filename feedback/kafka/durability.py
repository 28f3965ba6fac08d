"""Durability settings: how many copies Kafka must have before a request counts as sent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from feedback.errors import SettingsError

Acks = Literal["all", 0, 1]

# Records that come within this time share a batch, if throughput matters more than each one's time.
FAST_LINGER_MS = 5


@dataclass(frozen=True, slots=True)
class Durability:
    """How records are delivered.

    Attributes:
        acks: the replicas that must have a record: `all` in sync, 1 (the leader), 0 (none).
        is_idempotent: the broker drops duplicates from the producer's own retries.
        in_flight: requests under way to one broker; more than 1 loses the order after a fault,
            unless the producer is idempotent.
        linger_ms: how long a record waits for others to share its batch.
        min_insync: the least `min.insync.replicas` of a topic; 0: not checked.
    """

    acks: Acks = "all"
    is_idempotent: bool = False
    in_flight: int = 1
    linger_ms: int = 0
    min_insync: int = 0


# The default: every in-sync replica has the record, however few they are.
PLAIN = Durability()
FAST = Durability(acks=1, in_flight=5, linger_ms=FAST_LINGER_MS)


def durability_of(durability: str, *, min_insync_replicas: int) -> Durability:
    """Return the durability that a setting names.

    Args:
        durability: `safe`, `fast`, or empty for neither.
        min_insync_replicas: the least that `safe` requires of a topic.

    Raises:
        SettingsError: it is another word.

    >>> durability_of("safe", min_insync_replicas=2).min_insync
    2
    """
    match durability:
        case "":
            return PLAIN
        case "safe":
            return Durability(is_idempotent=True, min_insync=min_insync_replicas)
        case "fast":
            return FAST
    raise SettingsError(f"durability {durability!r}: 'safe' or 'fast'")
