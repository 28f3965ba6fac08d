"""Which failures become dead letters, by the settings. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from consumer.journal.sweeps.pruning import LetteredTopics
from feedback.records.dead_letter_topics import is_dead_letter_topic
from feedback.settings.settings import Settings

KEEP, DROP = "keep", "drop"
# The letter is stored, and nothing else of its topic runs until a person resumes it: see
# `consumer.features.pausing`.
STOP = "stop"
NONE = "none"


def strategies(settings: Settings, topics: Iterable[str]) -> Mapping[str, str]:
    """Return the strategy for failures, `keep` or `drop`, for those topics that have one."""
    chosen = {topic: strategy_of(settings, topic) for topic in topics}
    written = {topic: KEEP if one == STOP else one for topic, one in chosen.items()}
    return {topic: strategy for topic, strategy in written.items() if strategy != NONE}


def strategy_of(settings: Settings, topic: str) -> str:
    """Return the strategy for failures of a topic; there are no dead letters of dead letters."""
    if is_dead_letter_topic(topic, settings.kafka.group):
        return DROP
    return settings.worker.dead_letters_of(topic)


def lettered_of(settings: Settings) -> LetteredTopics:
    """Return the topics whose failures become dead letters, with or without handlers here."""
    worker = settings.worker
    by_default = worker.dead_letters in (KEEP, STOP)
    named = {*worker.dead_letters_by_topic, *worker.dead_letters_excluded}
    is_kept = {topic: worker.dead_letters_of(topic) in (KEEP, STOP) for topic in named}
    return LetteredTopics(
        by_default, frozenset(topic for topic in named if is_kept[topic] is not by_default)
    )
