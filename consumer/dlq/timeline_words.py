"""The events of a request, and who has it, in words: for a terminal and for a browser."""

from __future__ import annotations

from consumer.dlq.dates import moment
from consumer.dlq.report import RequestHolder
from consumer.dlq.timeline import TimelineEvent


def event_words(event: TimelineEvent) -> str:
    """Return an event on one line, as it came from outside.

    >>> from consumer.dlq.timeline import Clock, EventKind
    >>> event_words(TimelineEvent(5, EventKind.CLAIMED, Clock.JOURNAL, 1, by="worker-1"))
    'claimed, run 1, by worker-1'
    """
    first = " ".join(filter(None, (event.kind.value, event.name)))
    run = None if event.generation is None else f"run {event.generation}"
    by = event.by and f"by {event.by}"
    text = ", ".join(one for one in (first, run, by) if one)
    return f"{text}: {event.detail}" if event.detail else text


def holder_words(holder: RequestHolder | None) -> str:
    """Return who has a request, and whether that worker lives."""
    if holder is None:
        return "nobody"
    if holder.has_given_up:
        return f"{holder.worker_id}, which has given it up"
    life = {True: "lives", False: "is dead", None: "may live or not"}[holder.lives]
    if holder.is_leased is None:
        lease = "its lease is not known"
    elif holder.lease is None:
        lease = "it has no lease"
    else:
        word = "holds until" if holder.is_leased else "was over at"
        lease = f"its lease {word} {moment(holder.lease.until)}"
    beats = {True: "a heartbeat", False: "no heartbeat", None: "nobody knows of a heartbeat"}
    return f"{holder.worker_id}, which {life}: {lease}, {beats[holder.beats]}"
