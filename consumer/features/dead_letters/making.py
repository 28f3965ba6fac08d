"""The parts of a worker that write dead letters, made and connected."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from consumer.features.dead_letters.dead_letters import DROP, KEEP, DeadLetters
from consumer.features.dead_letters.evidence import LIMIT_BYTES, Evidence
from consumer.features.dead_letters.payloads import Payloads
from consumer.features.dead_letters.posting import Posting
from consumer.features.outgoing.listener import OutgoingListener
from consumer.journal.dead_letters import DeadLetterRows
from consumer.journal.pruning import Lettered
from consumer.loop.stored_record import Store
from feedback.kafka.reader import RecordReader
from feedback.kafka.topics import KafkaTopics
from feedback.kafka.writer import KafkaWriter
from feedback.records.dead_letter_topics import is_dead_letter_topic
from feedback.settings.settings import Settings

# Kept, and nothing else of its topic runs until a person says so: see `consumer.features.pausing`.
STOP = "stop"
NONE = "none"


def strategies(settings: Settings, topics: Iterable[str]) -> Mapping[str, str]:
    """Return the strategy for failures, for those topics that have one."""
    chosen = {topic: strategy_of(settings, topic) for topic in topics}
    written = {topic: KEEP if one == STOP else one for topic, one in chosen.items()}
    return {topic: strategy for topic, strategy in written.items() if strategy != NONE}


def strategy_of(settings: Settings, topic: str) -> str:
    """Return the strategy for failures of a topic; there are no dead letters of dead letters."""
    if is_dead_letter_topic(topic, settings.kafka.group):
        return DROP
    return settings.worker.dead_letters_of(topic)


def lettered_of(settings: Settings) -> Lettered:
    """Return the topics whose failures become dead letters, with or without handlers here."""
    worker = settings.worker
    by_default = worker.dead_letters in (KEEP, STOP)
    named = {*worker.dead_letters_by_topic, *worker.dead_letters_excluded}
    is_kept = {topic: worker.dead_letters_of(topic) in (KEEP, STOP) for topic in named}
    return Lettered(
        by_default, frozenset(topic for topic in named if is_kept[topic] is not by_default)
    )


def make_evidence(settings: Settings, topics: Iterable[str]) -> Evidence:
    """Return a memory for failures; where nobody writes dead letters, one that keeps nothing."""
    return Evidence(LIMIT_BYTES if strategies(settings, topics) else 0)


def make_dead_letters(
    settings: Settings,
    *,
    worker_id: str,
    topics: Iterable[str],
    evidence: Evidence,
    store: Store,
    redis_away: Callable[[], bool],
    may_sweep: Callable[[float], bool],
    listeners: Sequence[OutgoingListener],
) -> DeadLetters:
    """Return the writer of a worker's dead letters; it connects when there is one to write.

    Args:
        topics: those of this worker's handlers.
        evidence: the worker's memory of its failures.
        store: where clients keep payloads.
        redis_away: whether asking Redis would only cost time.
        may_sweep: asked with the monotonic time whether the dead can be told from the living.
        listeners: hear how many letters wait, and the end of each.
    """
    writer = KafkaWriter(settings.kafka)
    payloads = Payloads(reader=RecordReader(settings.kafka), store=store, redis_away=redis_away)

    def close() -> None:
        writer.close()
        payloads.close()

    posting = Posting(
        group=settings.kafka.group,
        evidence=evidence,
        payloads=payloads,
        topics=KafkaTopics(settings.kafka, create=settings.worker.create_topics),
        writer=writer,
        stopping=lambda: made.is_stopping,
    )
    made = DeadLetters(
        rows=DeadLetterRows(
            settings.journal.url,
            group=settings.kafka.group,
            worker_id=worker_id,
            statement_timeout_s=settings.journal.timeout_s,
        ),
        posting=posting,
        evidence=evidence,
        strategies=strategies(settings, topics),
        lease_s=settings.journal.lease_s,
        may_sweep=may_sweep,
        close=close,
        listeners=listeners,
    )
    return made
