"""The worker's own parts, with a clock and a sign of life around what they do.

They are the parts themselves, so that the road knows nothing of its being watched.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from consumer.intake.buffer import Buffer, Received
from consumer.journal import Applied, Claim, Finish, Journal, JournalUnavailable, Leases
from consumer.journal.leases import LeaseTimes
from consumer.ops.health.metrics import Metrics
from consumer.ops.health.progress import DISPATCH, INTAKE, LEASE, TELLER, Progress
from feedback.clock import monotonic_s
from feedback.errors import RedisUnavailable
from feedback.kafka.source import KafkaSource, Partition
from feedback.records.envelope import Record
from feedback.redis.store import StatusStore
from feedback.settings.settings import KafkaSection
from feedback.statuses import Refused, StatusWrite


class WatchedBuffer(Buffer):
    """A buffer whose requests must move while slots are free.

    Args:
        limit: requests, more than 0.
    """

    def __init__(self, limit: int, *, progress: Progress, metrics: Metrics) -> None:
        super().__init__(limit)
        self._progress = progress
        self._metrics = metrics

    def put(self, received: Iterable[Received]) -> None:
        """Add requests behind those that wait."""
        those = list(received)
        super().put(those)
        for topic, count in Counter(one.record.topic for one in those).items():
            self._metrics.delivered(topic, count)

    def take(self, most: int) -> list[Received]:
        """Remove and return the oldest, at most `most`."""
        taken = super().take(most)
        if taken:
            self._progress.tick(DISPATCH)
        return taken


class WatchedSource(KafkaSource):
    """A source that tells how it stands with Kafka, without asking Kafka.

    Attributes:
        is_joined: the group is stable with this member in it, as of the last poll.
        partitions: how many this member had then.
    """

    def __init__(
        self,
        settings: KafkaSection,
        topics: Sequence[str],
        *,
        progress: Progress,
        metrics: Metrics,
    ) -> None:
        self.is_joined = False
        self.partitions = 0
        self._progress = progress
        self._metrics = metrics
        super().__init__(settings, topics)

    def poll(self, timeout_s: float, *, max_records: int) -> list[Record]:
        """Return new records, in offset order within each partition.

        Raises:
            KafkaUnavailable: the broker refused; polling again is right.
        """
        self._progress.tick(INTAKE)
        try:
            return super().poll(timeout_s, max_records=max_records)
        finally:
            self._note_group()

    def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit the next offset to read of each partition, and return when it is applied.

        Raises:
            CommitFailed: it was refused or its outcome is unknown.
        """
        self._progress.tick(INTAKE)
        started_s = monotonic_s()
        try:
            super().commit(offsets)
        finally:
            self._metrics.commit_took(monotonic_s() - started_s)

    def _note_group(self) -> None:
        self.is_joined = self.is_stable()
        self.partitions = len(self.assigned())


class WatchedStore(StatusStore):
    """The teller's statuses: each batch is a sign of its life, whatever Redis says to it."""

    def __init__(self, *given: Any, progress: Progress, metrics: Metrics) -> None:
        super().__init__(*given)
        self._progress = progress
        self._metrics = metrics

    def write(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[Refused | None]:
        """Tell a batch of statuses; None for each that was taken.

        Raises:
            RedisUnavailable: nothing is known of what was written; repeating is harmless.
        """
        self._progress.tick(TELLER)
        started_s = monotonic_s()
        try:
            return super().write(writes, look_at=look_at)
        except RedisUnavailable:
            self._progress.tick(TELLER)
            raise
        finally:
            self._metrics.status_took(monotonic_s() - started_s)


class WatchedJournal(Journal):
    """The loop's journal; claims and finishes of one turn share a transaction and its time."""

    def __init__(self, *given: Any, metrics: Metrics, **named: Any) -> None:
        super().__init__(*given, **named)
        self._metrics = metrics

    def apply(
        self, *, claims: Sequence[Claim] = (), finishes: Sequence[Finish] = (), **others: Any
    ) -> Applied:
        """Commit everything in one transaction and return what became of it.

        Raises:
            JournalUnavailable: the outcome is unknown; the same call may be repeated.
            JournalVersionError: the journal's tables are missing.
        """
        started_s = monotonic_s()
        try:
            return super().apply(claims=claims, finishes=finishes, **others)
        finally:
            took_s = monotonic_s() - started_s
            if claims:
                self._metrics.claim_took(took_s)
            if finishes:
                self._metrics.finish_took(took_s)


class WatchedLeases(Leases):
    """The worker's lease, with its end by our own clock.

    Attributes:
        end_s: monotonic; counted from before the renewal was sent.
        is_away: the database did not answer the last time.
    """

    def __init__(self, *given: Any, progress: Progress, **named: Any) -> None:
        super().__init__(*given, **named)
        self._progress = progress
        self.end_s = 0.0
        self.is_away = False

    def register(self, lease_s: float) -> LeaseTimes:
        """Begin the lease, or take it up again.

        Raises:
            JournalUnavailable: the outcome is unknown; call again.
            JournalVersionError: the journal's tables are missing.
        """
        with self._noting(lease_s):
            return super().register(lease_s)

    def renew(self, lease_s: float) -> LeaseTimes | None:
        """Extend the lease from now on; None when its row is gone: then register again.

        Raises:
            JournalUnavailable: the outcome is unknown; call again.
            JournalVersionError: the journal's tables are missing.
        """
        with self._noting(lease_s):
            return super().renew(lease_s)

    @contextmanager
    def _noting(self, lease_s: float) -> Iterator[None]:
        self._progress.tick(LEASE)
        before_s = monotonic_s()
        try:
            yield
        except JournalUnavailable:
            self.is_away = True
            raise
        self.is_away = False
        # A renewal that found no row is followed by a registration at once.
        self.end_s = before_s + lease_s
