"""The names of all topics, asked within a limit."""

from __future__ import annotations

from kafka import KafkaConsumer

from feedback.clock import monotonic_s


def names_of_all(consumer: KafkaConsumer, *, limit_s: float) -> frozenset[str]:
    """Return the names of all topics that the brokers show to a consumer.

    `KafkaConsumer.topics` waits without a limit, and after a failure each later refresh asks for
    all topics of the cluster.

    Args:
        limit_s: how long to wait, in seconds.

    Raises:
        kafka.errors.KafkaTimeoutError: no broker answered in time.
    """
    cluster, deadline_s = consumer._cluster, monotonic_s() + limit_s

    def refresh() -> None:
        left_ms = max(0, int((deadline_s - monotonic_s()) * 1000))
        consumer._net.run(consumer._manager.wait_for, cluster.request_update(), left_ms)

    if cluster.metadata_refresh_in_progress:
        refresh()  # The one under way asks for the topics of the subscription alone.
    cluster.need_all_topic_metadata = True
    try:
        refresh()
    finally:
        cluster.need_all_topic_metadata = False
    return frozenset(cluster.topics())
