"""The record of an outcome. Pure.

It is made of the row alone, but for the trace context. So a second writer writes the same key and
value.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

from consumer.journal.records import Row
from feedback.kafka.outgoing import Outgoing
from feedback.records.envelope import OUTCOME_ID, REQUEST_ID, TRACEPARENT, outcome_id
from feedback.records.failure_headers import decimal, utf8

STATUS = "onceward-status"
GENERATION = "onceward-generation"
# The most bytes of a record beside key and result, for any names and texts.
ROOM_BYTES = 16_384

_encode = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode


class OutcomeRecord(NamedTuple):
    """An outcome with everything that its record is made of.

    Args:
        traceparent: the trace context of its last sending, where it is known.
    """

    row: Row
    topic: str
    group: str
    traceparent: bytes | None

    @property
    def size_bytes(self) -> int:
        """Its share of a batch in bytes, nearly."""
        return len(self.row.message_key or b"") + len(self.row.result or "")

    def versions(self) -> Iterator[Outgoing]:
        """Yield the record; there is no shorter one, since a result is not to be lost."""
        row = self.row
        # The key decides, as with the request. Without one, a record that is written again is to be
        # in the same partition all the same.
        partition = row.partition if row.message_key is None else None
        value = value_of(row, self.group)
        yield Outgoing(self.topic, partition, row.message_key, value, self._headers())

    def _headers(self) -> tuple[tuple[str, bytes], ...]:
        row = self.row
        headers = (
            (REQUEST_ID, utf8(row.request_id)),
            (STATUS, utf8(row.state)),
            (GENERATION, decimal(row.generation)),
            (OUTCOME_ID, utf8(outcome_id(row.request_id, row.generation))),
        )
        if self.traceparent is None:
            return headers
        return (*headers, (TRACEPARENT, self.traceparent))


def value_of(row: Row, group: str) -> bytes:
    """Return the JSON that says how a request ended, with its result as the handler returned it."""
    facts = {
        "request_id": row.request_id,
        "status": row.state,
        "code": row.code,
        "message": row.message,
        "attempt": row.attempt,
        "generation": row.generation,
        "finished_at": row.finished_at,
        "by": row.by,
        "group": group,
        "topic": row.topic,
        "partition": row.partition,
        "offset": row.offset,
    }
    # The result is JSON already: decoded and encoded again it might not be the same number.
    result = "null" if row.result is None else row.result
    return f'{_encode(facts)[:-1]},"result":{result}}}'.encode()
