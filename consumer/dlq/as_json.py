"""Letters, rows and lists as JSON values. Pure.

Missing facts are left out. JSON's own escapes keep everything hostile from a terminal.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from consumer.dlq.letter import Failure, Letter
from consumer.dlq.letter_state import LetterState
from consumer.dlq.next_commands import next_commands
from consumer.dlq.report import RequestHolder, RequestReport
from consumer.dlq.tally import LetterTally, ListedLetter
from consumer.dlq.timeline import TimelineEvent, timeline_of
from consumer.dlq.unfinished import unfinished_json
from feedback.records.envelope import NullHeader


def listed_json(one: ListedLetter, *, later: Sequence[str] = ()) -> dict[str, Any]:
    """Return a line of a list.

    Args:
        later: requests of its key that have succeeded after it.
    """
    return {
        "request_id": one.request_id,
        "state": one.state.value,
        **({} if one.ours is None else {"this_group": one.ours}),
        "dialect": one.dialect.value,
        **place_json(*one.place),
        **failure_json(one.failure),
        **({"succeeded_later": list(later)} if later else {}),
    }


def place_json(topic: str, partition: int, offset: int, timestamp_ms: int) -> dict[str, Any]:
    """Return the place of a letter, and the time of its record."""
    return {
        "dlq_topic": topic,
        "dlq_partition": partition,
        "dlq_offset": offset,
        "dlq_timestamp": timestamp_ms,
    }


def failure_json(failure: Failure) -> dict[str, Any]:
    """Return the failure that a letter's headers describe."""
    return {name: value for name, value in failure_facts(failure).items() if value is not None}


def failure_facts(failure: Failure) -> dict[str, Any]:
    """Return all fields of a failure; None is a field that the headers lack."""
    original = failure.original
    return {
        "topic": original.topic,
        "partition": original.partition,
        "offset": original.offset,
        "timestamp": original.timestamp_ms,
        "reason": failure.reason,
        "code": failure.code,
        "stage": failure.stage,
        "exception_class": failure.exception_class,
        "exception_message": failure.exception_message,
        "stacktrace": failure.stack,
        "attempts": failure.attempts,
        "first_failed_at": failure.first_failed_at,
        "failed_at": failure.failed_at,
        "redrive_count": failure.redrive_count,
        "redrive_id": failure.redrive_id,
        "redrive_by": failure.redrive_by,
        "group": failure.group,
    }


def letter_json(letter: Letter, *, value: bool) -> dict[str, Any]:
    """Return all fields of a letter."""
    record = letter.record
    whole = {
        "request_id": letter.request_id,
        "dialect": letter.dialect.value,
        **place_json(*record[:4]),
        **failure_json(letter.failure),
        **bytes_json("key", letter.key),
        "headers": [{"name": name, **bytes_json("value", raw)} for name, raw in letter.headers],
    }
    return whole | (bytes_json("value", letter.value) if value else {})


def report_json(report: RequestReport, *, value: bool, config: str | None = None) -> dict[str, Any]:
    """Return all that is known of a request; a missing part is null.

    Args:
        value: whether to include its value and the letters' values.
    """
    row = None
    if report.row is not None:
        row = report.row._asdict()
        row |= bytes_json("message_key", row.pop("message_key"))
    status = None
    if report.status is not None:
        status = {name: one for name, one in asdict(report.status).items() if one is not None}
    return {
        "request_id": report.request_id,
        "state": None if report.state is None else report.state.value,
        "this_group": report.ours,
        "letters": [letter_json(one, value=value) for one in report.letters],
        "row": row,
        "runs": [one._asdict() for one in report.runs],
        "actions": [one._asdict() for one in report.actions],
        "status": status,
        "status_away": report.away,
        "letters_away": report.letters_away,
        "group": report.group,
        "topic": report.topic,
        "paused": None if report.pause is None else report.pause._asdict(),
        **bytes_json("key", report.key),
        **(bytes_json("value", report.value) if value else {}),
        "idempotency_keys": report.idempotency_keys,
        "holder": None if report.holder is None else _holder_json(report.holder),
        "unsent_by": None if report.unsent_by is None else unfinished_json(report.unsent_by),
        "timeline": [_event_json(one) for one in timeline_of(report)],
        "next": [asdict(one) for one in next_commands(report, config=config)],
    }


def _holder_json(holder: RequestHolder) -> dict[str, Any]:
    return {
        "worker": holder.worker_id,
        "lives": holder.lives,
        "lease_until": None if holder.lease is None else holder.lease.until,
        "is_leased": holder.is_leased,
        "beats": holder.beats,
        "has_given_up": holder.has_given_up,
    }


def _event_json(event: TimelineEvent) -> dict[str, Any]:
    return {name: one for name, one in event._asdict().items() if one is not None}


def bytes_json(name: str, raw: bytes | None) -> dict[str, Any]:
    """Return bytes as text where they are text, else in base64 under another name."""
    text = None if isinstance(raw, NullHeader) else utf8_or_none(raw)
    if raw is None or text is not None or isinstance(raw, NullHeader):
        return {name: text}
    return {f"{name}_base64": base64.b64encode(raw).decode()}


def utf8_or_none(raw: bytes | None) -> str | None:
    """Return bytes as text; None for bytes that are not UTF-8, and for null."""
    try:
        return None if raw is None else raw.decode("utf-8")
    except UnicodeDecodeError:
        return None


def summary_json(tally: LetterTally, *, bars: int) -> dict[str, Any]:
    """Return the summary of all letters of a list."""
    return {
        "shown": tally.shown,
        "states": {one.value: tally.states[one] for one in LetterState if tally.states[one]},
        "reasons": dict(tally.reasons.most_common()),
        "codes": dict(tally.codes.most_common()),
        "exception_classes": dict(tally.classes.most_common()),
        "messages": dict(tally.messages.most_common()),
        "topics": dict(tally.topics.most_common()),
        "dialects": dict(tally.dialects.most_common()),
        "oldest_failed_at": tally.oldest_ms,
        "newest_failed_at": tally.newest_ms,
        "histogram": [bar._asdict() for bar in tally.times.bars(bars)],
    }
