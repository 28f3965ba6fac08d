"""The parts of a worker that pause topics, made and connected."""

from __future__ import annotations

from collections.abc import Callable, Collection

from consumer.features.dead_letters.making import STOP, strategy_of
from consumer.features.pausing.guard import Guard
from consumer.features.pausing.pausing import Alerts, Pausing
from consumer.features.pausing.watching import Watching
from consumer.journal.pauses import Pauses
from feedback.settings.settings import Settings

# How many slots a counterparty that hangs may hold with probes, beside those it held before.
PROBES_SHARE = 4


def make_pausing(
    settings: Settings,
    *,
    worker_id: str,
    topics: Collection[str],
    alerts: Alerts | None,
    wake: Callable[[], None],
) -> Pausing:
    """Return the object that knows the paused topics.

    Args:
        topics: those of this worker's handlers.
        alerts: told of the topics that this worker pauses.
        wake: wakes the worker's loop.
    """
    worker = settings.worker
    return Pausing(
        guard=Guard(
            share=worker.outage_share,
            window=worker.outage_window,
            probes=max(1, worker.slots // PROBES_SHARE),
        ),
        topics=topics,
        stopping=[topic for topic in topics if strategy_of(settings, topic) == STOP],
        me=worker_id,
        alerts=alerts,
        wake=wake,
    )


def make_watching(settings: Settings, pausing: Pausing) -> Watching:
    """Return the thread that keeps the journal and the worker of one mind."""
    rows = Pauses(
        settings.journal.url,
        group=settings.kafka.group,
        statement_timeout_s=settings.journal.timeout_s,
    )
    return Watching(pausing, rows)
