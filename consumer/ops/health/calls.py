"""How long calls of Kafka, the journal and Redis take, by their purpose."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Histogram

from feedback.observer import Observer

# From a commit on the same host to a server that is about to be given up.
BUCKETS_S = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
# The label of each thing that observers hear of.
JOURNAL = {
    "claim": "claim",
    "finish": "finish",
    "effect": "effect",
    "lease": "renew",
    "sweep": "sweep",
    "owed": "owed_records",
    "pauses": "pauses",
    "restore": "restore",
    "journal": "other",
}
REDIS = {"status": "write", "read": "read", "heartbeat": "heartbeat"}


class CallDurations(Observer):
    """Times calls; those that fail count with the time that they took."""

    def __init__(self, registry: CollectorRegistry) -> None:
        commits = Histogram(
            "onceward_commit_seconds",
            "Commits of offsets to Kafka.",
            buckets=BUCKETS_S,
            registry=registry,
        )
        journal = _histogram(
            registry,
            "onceward_journal_call_seconds",
            "Transactions of the journal; one that carries claims and finishes counts as both.",
        )
        redis = _histogram(
            registry, "onceward_redis_call_seconds", "Calls of Redis; a write publishes as well."
        )
        self._series: Mapping[str, Histogram] = {
            "commit": commits,
            **{heard: journal.labels(shown) for heard, shown in JOURNAL.items()},
            **{heard: redis.labels(shown) for heard, shown in REDIS.items()},
        }

    def took(self, what: str, seconds: float) -> None:
        """Count how long a call took."""
        series = self._series.get(what)
        if series is not None:
            series.observe(seconds)


def _histogram(registry: CollectorRegistry, name: str, text: str) -> Histogram:
    return Histogram(name, text, ["operation"], buckets=BUCKETS_S, registry=registry)
