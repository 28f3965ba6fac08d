"""The columns of an export: a row for each letter. Pure.

Bytes stand as text where they are UTF-8, else in base64; a column beside says which. Times are
epoch milliseconds; one that no calendar has is left out.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from consumer.dlq.as_json import bytes_json, failure_facts, utf8_or_none
from consumer.dlq.letter import DeadLetter
from consumer.dlq.standing import Standing
from feedback.records.envelope import MAX_EPOCH_MS

TEXT, NUMBER, TIME = "text", "number", "time"

COLUMNS = {
    "request_id": TEXT,
    "state": TEXT,
    "dialect": TEXT,
    "dlq_topic": TEXT,
    "dlq_partition": NUMBER,
    "dlq_offset": NUMBER,
    "dlq_timestamp": TIME,
    "topic": TEXT,
    "partition": NUMBER,
    "offset": NUMBER,
    "timestamp": TIME,
    "reason": TEXT,
    "code": TEXT,
    "stage": TEXT,
    "exception_class": TEXT,
    "exception_message": TEXT,
    "stacktrace": TEXT,
    "attempts": NUMBER,
    "first_failed_at": TIME,
    "failed_at": TIME,
    "redrive_count": NUMBER,
    "redrive_id": TEXT,
    "redrive_by": TEXT,
    "group": TEXT,
    "key": TEXT,
    "key_encoding": TEXT,
    "value": TEXT,
    "value_encoding": TEXT,
    # A JSON list, since names may be repeated.
    "headers": TEXT,
}


def row_of(letter: DeadLetter, standing: Standing) -> dict[str, Any]:
    """Return all columns of a letter."""
    record = letter.record
    headers = [{"name": name, **bytes_json("value", raw)} for name, raw in letter.headers]
    facts: dict[str, Any] = {
        "request_id": letter.request_id,
        "state": standing.value,
        "dialect": letter.dialect.value,
        "dlq_topic": record.topic,
        "dlq_partition": record.partition,
        "dlq_offset": record.offset,
        "dlq_timestamp": record.timestamp_ms,
        **failure_facts(letter.failure),
    }
    return {
        **{name: _time(one) if COLUMNS[name] == TIME else one for name, one in facts.items()},
        **_bytes("key", letter.key),
        **_bytes("value", letter.value),
        "headers": json.dumps(headers),
    }


def _time(ms: int | None) -> int | None:
    return ms if ms is not None and 0 <= ms <= MAX_EPOCH_MS else None


def _bytes(name: str, raw: bytes | None) -> dict[str, str | None]:
    if raw is None:
        return {name: None, f"{name}_encoding": None}
    text = utf8_or_none(raw)
    if text is not None:
        return {name: text, f"{name}_encoding": "utf-8"}
    return {name: base64.b64encode(raw).decode(), f"{name}_encoding": "base64"}
