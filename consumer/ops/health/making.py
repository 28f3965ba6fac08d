"""The parts of a worker whose health is watched, made of its settings."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from redis import Redis

from consumer.ops.health.health import Health
from consumer.ops.health.watched import (
    WatchedBuffer,
    WatchedJournal,
    WatchedLeases,
    WatchedSource,
    WatchedStore,
)
from feedback.settings.settings import Settings


class Watched:
    """Makes what tells a worker's health how it gets on; each call makes another one.

    Args:
        settings: those of the worker.
        worker_id: as in its claims.
        health: hears of it.
    """

    def __init__(self, settings: Settings, worker_id: str, health: Health) -> None:
        self._settings = settings
        self._worker_id = worker_id
        self._progress = health.progress
        self._metrics = health.metrics

    def buffer(self) -> WatchedBuffer:
        """Return the buffer between Kafka and the claims."""
        limit = self._settings.worker.buffer_size
        return WatchedBuffer(limit, progress=self._progress, metrics=self._metrics)

    def journal(self, outcome_topics: Collection[str]) -> WatchedJournal:
        """Return a journal with a connection of its own.

        Args:
            outcome_topics: the topics whose outcomes are passed on.
        """
        section = self._settings.journal
        return WatchedJournal(
            section.url,
            group=self._settings.kafka.group,
            worker_id=self._worker_id,
            statement_timeout_s=section.timeout_s,
            outcome_topics=outcome_topics,
            metrics=self._metrics,
        )

    def leases(self) -> WatchedLeases:
        """Return the worker's lease, with a connection of its own."""
        section = self._settings.journal
        return WatchedLeases(
            section.url,
            group=self._settings.kafka.group,
            worker_id=self._worker_id,
            statement_timeout_s=section.timeout_s,
            progress=self._progress,
        )

    def store(self, redis: Redis) -> WatchedStore:
        """Return the statuses for the teller."""
        return WatchedStore(
            redis,
            self._settings.kafka.group,
            self._settings.redis,
            progress=self._progress,
            metrics=self._metrics,
        )

    def source(self, topics: Sequence[str]) -> WatchedSource:
        """Return a member of the group that reads these topics."""
        return WatchedSource(
            self._settings.kafka,
            topics,
            progress=self._progress,
            metrics=self._metrics,
        )
