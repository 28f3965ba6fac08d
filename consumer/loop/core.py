"""The worker as the factory of a feature sees it, before the loop is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from consumer.handlers.declaration import Handler
from consumer.intake.context import IntakeContext
from consumer.intake.gate import Gate
from consumer.journal.group_journal import GroupJournal
from consumer.journal.swept_journal import SweptJournal
from consumer.loop.feature import Feature
from consumer.loop.payload_lookup import PayloadLookup
from consumer.loop.scheduler import Scheduler
from feedback.kafka.source import KafkaSource, Unclaimed
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.values import Place
from feedback.observer import Observer
from feedback.redis.store import StatusStore

RowsT = TypeVar("RowsT", bound=GroupJournal)
KindT = TypeVar("KindT")


@dataclass(frozen=True, kw_only=True)
class Core(IntakeContext):
    """The worker, as its features see it; `IntakeContext` is the part that readers need.

    Attributes:
        handlers: all of the worker.
        outlives: whether the journal is there for others when this worker is not.
        store: heartbeats, statuses, and the payloads that clients keep.
        redis_away: whether asking Redis would only cost time.
        observers: hear how the worker gets on.
        scheduler: the requests that wait, `due` retries included.
        sweeps: the journal, for the sweeper's thread alone.
        payloads: finds the payload of a row, for the same thread.
        may_sweep: asked with the monotonic time whether the dead can be told from the living.
        open_source: joins the group for these handlers; called in the thread that reads.
        has_any: whether the worker still has a record of these places; any thread.
        gates: a feature that closes topics adds itself.
        features: those that are made already, in the order of the list in `ops/build`.
    """

    handlers: Sequence[Handler]
    outlives: bool
    store: StatusStore
    redis_away: Callable[[], bool]
    observers: Sequence[Observer]
    scheduler: Scheduler
    sweeps: SweptJournal
    payloads: PayloadLookup
    may_sweep: Callable[[float], bool]
    open_source: Callable[[Sequence[Handler], Unclaimed], KafkaSource]
    has_any: Callable[[Collection[Place]], bool]
    gates: list[Gate]
    features: Sequence[Feature]

    @property
    def group(self) -> str:
        """The consumer group."""
        return self.settings.kafka.group

    @property
    def by_topic(self) -> Mapping[str, Handler]:
        """The handler of each topic."""
        return {one.topic: one for one in self.handlers}

    def rows(self, kind: type[RowsT]) -> RowsT:
        """Return rows that owe a record, for one thread."""
        rows = kind.from_settings(self.settings, worker_id=self.worker_id)
        return rows.timed(self.observers, "owed")

    def kafka_topics(self) -> KafkaTopics:
        """Return the maker of missing topics, where the settings allow it; for one thread."""
        return KafkaTopics(self.settings.kafka, create=self.settings.worker.create_topics)

    def made(self, kind: type[KindT]) -> tuple[KindT, ...]:
        """Return the features of this kind that are made already: those that this one tells."""
        return tuple(one for one in self.features if isinstance(one, kind))
