"""What a Kafka record says of itself, as Spark columns: id, attempt, deadline, payload hash.

The rules are those of the contract (sections 3 and 7), written a second time on purpose: the audit
trusts none of the code that it is a witness of. Every column is one of Spark's own expressions.

A header of ours is well formed only when it is printable ASCII or a decimal number, so that text
which is not UTF-8 fails the same pattern as any other text: it needs no rule of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from pyspark.sql import Column
from pyspark.sql import functions as F

REQUEST_ID = "onceward-request-id"
ATTEMPT = "onceward-attempt"
DEADLINE = "onceward-deadline"
REOPENS = "onceward-reopens"
OUTCOME_ID = "onceward-outcome-id"

MAX_ID_LENGTH = 128
MAX_ATTEMPT = 2**31 - 1
# The end of the year 9999.
MAX_EPOCH_MS = 253_402_300_799_999

# \A and \z: Java's $ also matches before a newline at the end.
_ID = r"\A[!-~]{1,128}\z"
_DECIMAL = r"\A[0-9]{1,15}\z"


class Envelope(NamedTuple):
    """What the headers of ours say.

    Attributes:
        request_id: the header's, else, and where a header is malformed, the coordinates.
        attempt: 1 where none is named, or a header is malformed.
        deadline_at: epoch ms; null where none is named, or a header is malformed.
        is_malformed: whether a header of ours is repeated or is not what section 7 allows.
        is_outcome: whether the record says how another request has ended. Its id is then that of
            the outcome: to a group that reads it, it is a request of its own.
        is_named: whether a header names the id.
    """

    request_id: Column
    attempt: Column
    deadline_at: Column
    is_malformed: Column
    is_outcome: Column
    is_named: Column

    def columns(self) -> dict[str, Column]:
        """Return what a snapshot keeps of it, by name."""
        kept = ("request_id", "attempt", "deadline_at", "is_malformed")
        return {name: column for name, column in self._asdict().items() if name in kept}


def envelope(headers: Column, coordinates: Column) -> Envelope:
    """Return what the headers of ours say of a record.

    Args:
        headers: array of (key string, value binary); null where a record has none.
        coordinates: its coordinates id.
    """
    request_id = _Header(headers, REQUEST_ID)
    attempt = _Header(headers, ATTEMPT)
    deadline = _Header(headers, DEADLINE)
    reopens = _Header(headers, REOPENS)
    outcome = _Header(headers, OUTCOME_ID)
    # A record with an attempt was sent again by its id: what it says of an outcome is the user's.
    is_outcome = outcome.is_there & ~attempt.is_there
    is_malformed = (
        # An outcome has an id of its own: that of the ended request may be any text.
        request_id.is_malformed(
            request_id.text.rlike(_ID) | (is_outcome & F.is_valid_utf8(request_id.text))
        )
        | (is_outcome & outcome.is_malformed(outcome.text.rlike(_ID)))
        | attempt.is_malformed(_is_between(attempt.text, 1, MAX_ATTEMPT))
        | deadline.is_malformed(_is_between(deadline.text, 0, MAX_EPOCH_MS))
        | reopens.is_malformed(_is_between(reopens.text, 0, MAX_ATTEMPT))
    )
    well_formed = ~is_malformed
    return Envelope(
        request_id=F.when(well_formed & is_outcome, outcome.text)
        .when(well_formed & request_id.is_there, request_id.text)
        .otherwise(coordinates),
        attempt=F.when(well_formed & attempt.is_there, _number(attempt.text)).otherwise(
            F.lit(1).cast("long")
        ),
        deadline_at=F.when(well_formed & deadline.is_there, _number(deadline.text)),
        is_malformed=is_malformed,
        is_outcome=is_outcome,
        is_named=request_id.is_there | is_outcome,
    )


def coordinates_id(
    topic: Column, partition: Column, offset: Column, timestamp_ms: Column
) -> Column:
    """Return the id of a record that names none: where it stands, hashed when that is too long."""
    text = F.concat_ws(
        "-", topic, *(one.cast("string") for one in (partition, offset, timestamp_ms))
    )
    hashed = F.concat(F.lit("sha256-"), F.sha2(text.cast("binary"), 256))
    return F.when(F.length(text) <= MAX_ID_LENGTH, text).otherwise(hashed)


def payload_sha256(key: Column, value: Column) -> Column:
    """Return the hex digest over key and value, each after its length (contract, section 3)."""
    parts = [part for one in (key, value) for part in (_length(one), F.coalesce(one, _no_bytes()))]
    return F.sha2(F.concat(*parts), 256)


def first_text(headers: Column, name: str) -> Column:
    """Return the first header of this name as text; null where there is none."""
    return _as_text(_first_value(headers, name))


def last_text(headers: Column, name: str) -> Column:
    """Return the last header of this name as text; null where there is none."""
    return first_text(F.reverse(headers), name)


def first_number(headers: Column, name: str) -> Column:
    """Return the first header of this name as a number; null where it is none."""
    text = first_text(headers, name)
    return F.when(text.rlike(r"\A[0-9]{1,18}\z"), _number(text))


class _Header:
    """One header of ours among all. No lambda: Spark compiles these expressions, lambdas never."""

    def __init__(self, headers: Column, name: str) -> None:
        names = headers["key"]
        self._is_repeated = F.size(names) - F.size(F.array_remove(names, name)) > 1
        self.is_there = F.coalesce(F.array_contains(names, name), F.lit(False))
        # A header without a value counts as an empty one.
        self.text = F.coalesce(_first_value(headers, name), _no_bytes()).cast("string")

    def is_malformed(self, is_right: Column) -> Column:
        """Return whether it is there and repeated, or there and not right."""
        return self.is_there & (self._is_repeated | ~is_right)


def _first_value(headers: Column, name: str) -> Column:
    # Counted from one, zero where there is none, which nothing stands at.
    position = F.array_position(headers["key"], name)
    return F.get(headers["value"], (position - 1).cast("int"))


def _is_between(text: Column, low: int, high: int) -> Column:
    return F.when(text.rlike(_DECIMAL), _number(text).between(low, high)).otherwise(False)


def _number(text: Column) -> Column:
    return text.try_cast("long")


def _as_text(raw: Column) -> Column:
    # Anybody may have written it: what is not UTF-8 must not reach a Parquet file's text.
    return F.make_valid_utf8(raw.cast("string"))


def _length(part: Column) -> Column:
    """Return a part's length as eight bytes, the highest first; minus one for null."""
    digits = F.hex(F.coalesce(F.octet_length(part), F.lit(-1)).cast("long"))
    return F.unhex(F.lpad(digits, 16, "0"))


def _no_bytes() -> Column:
    return F.lit(b"")
