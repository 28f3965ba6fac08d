"""The parts of a worker that pass outcomes on, made and connected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from consumer.features.outcomes.news import News
from consumer.features.outcomes.outcomes import Outcomes
from consumer.features.outcomes.record import ROOM_BYTES, OutcomeRecord
from consumer.features.outgoing.listener import OutgoingListener
from consumer.features.outgoing.posting import Posting, Target
from consumer.handlers.declaration import Handler
from consumer.journal.outcomes import Ended, OutcomeRows
from feedback.errors import KafkaUnavailable
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.logs import EventLog
from feedback.settings.settings import Settings

log = EventLog("onceward.outcomes")


def outcome_topics(handlers: Iterable[Handler]) -> Mapping[str, str]:
    """Return where the outcomes of each topic go, for those that name an outcome topic."""
    return {one.topic: one.outcome_topic for one in handlers if one.outcome_topic is not None}


def make_outcomes(
    settings: Settings,
    targets: Mapping[str, str],
    *,
    worker_id: str,
    news: News,
    may_sweep: Callable[[float], bool],
    listeners: Sequence[OutgoingListener],
) -> Outcomes:
    """Return the writer of a worker's outcomes; it connects when it is started.

    Args:
        targets: the outcome topic of each topic that has one.
        news: the requests that the worker has just finished.
        may_sweep: asked with the monotonic time whether the dead can be told from the living.
        listeners: hear how many outcomes wait, and the end of each.
    """
    group = settings.kafka.group
    writer = KafkaWriter(settings.kafka)
    topics = KafkaTopics(settings.kafka, create=settings.worker.create_topics)
    # JSON in UTF-8, as the handler's result was measured, and all that stands round it.
    room_bytes = settings.worker.max_result_bytes + ROOM_BYTES

    def target(topic: str) -> Target:
        return Target(targets[topic], room_bytes)

    def draft(one: Ended) -> OutcomeRecord:
        row = one.row
        traceparent = news.traceparent((row.request_id, row.generation))
        return OutcomeRecord(row, targets[row.topic], group, traceparent)

    def begin() -> None:
        """Make the topics before the first outcome, so that readers find them; else it waits."""
        for topic, name in targets.items():
            try:
                topics.ensure(name, like=topic, room_bytes=room_bytes)
                writer.prepare([name])
            except KafkaUnavailable as error:
                log.warning("outcomes.topic_away", topic=topic, reason=str(error))

    posting = Posting[Ended](
        kind="outcomes",
        target=target,
        draft=draft,
        topics=topics,
        writer=writer,
        stopping=lambda: made.is_stopping,
    )
    made = Outcomes(
        rows=OutcomeRows(
            settings.journal.url,
            group=group,
            worker_id=worker_id,
            statement_timeout_s=settings.journal.timeout_s,
        ),
        posting=posting,
        news=news,
        targets=targets,
        lease_s=settings.journal.lease_s,
        may_sweep=may_sweep,
        begin=begin,
        close=writer.close,
        listeners=listeners,
    )
    return made
