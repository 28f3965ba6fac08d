"""The fields of a Kafka record as Spark columns: id, attempt, deadline, payload hash.

The rules are those of docs: The guarantee, Kafka records. They are written a second time on
purpose: the audit trusts none of the code that it is a witness of.

A header of ours is well formed only when it is printable ASCII or a decimal number, so that text
which is not UTF-8 fails the same pattern as any other text: it needs no rule of its own.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from spark_audit.stage.header_columns import Header, Headers

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

# The columns of `with_envelope`.
ENVELOPE = ("request_id", "attempt", "deadline_at", "is_malformed", "is_outcome", "is_named")

_OURS = tuple(map(Header, (REQUEST_ID, ATTEMPT, DEADLINE, REOPENS, OUTCOME_ID)))
_REQUEST_ID, _ATTEMPT, _DEADLINE, _REOPENS, _OUTCOME_ID = _OURS


def header_columns(headers: Headers) -> dict[str, Column]:
    """Return the columns of a frame's headers that `with_envelope` needs, by name."""
    return {name: column for one in _OURS for name, column in one.columns(headers).items()}


def with_envelope(frame: DataFrame) -> DataFrame:
    """Return records with the values of our headers, in the columns of `ENVELOPE`.

    - `request_id`: the header's, else, and where a header is malformed, the coordinates.
    - `attempt`: 1 where none is named, or a header is malformed.
    - `deadline_at`: epoch ms; null where none is named, or a header is malformed.
    - `is_malformed`: whether a header of ours is repeated or breaks section 7.
    - `is_outcome`: whether the record says how another request has ended. Its id is then that of
      the outcome: to a group that reads it, it is a request of its own.
    - `is_named`: whether a header names the id.

    Args:
        frame: with topic, partition, offset, timestamp_ms (epoch ms), and `header_columns` in a
            projection of their own. In one projection with the columns made of them, Spark would
            read the same header at each of some thirty places.
    """
    return frame.withColumns(_judged()).withColumns(_said())


def _judged() -> dict[str, Column]:
    # A record with an attempt was sent again by its id: the value of an outcome is the user's.
    is_outcome = _OUTCOME_ID.is_there & ~_ATTEMPT.is_there
    is_malformed = (
        # An outcome has an id of its own: that of the ended request may be any text.
        _REQUEST_ID.is_malformed(
            _REQUEST_ID.text.rlike(_ID) | (is_outcome & F.is_valid_utf8(_REQUEST_ID.text))
        )
        | (is_outcome & _OUTCOME_ID.is_malformed(_OUTCOME_ID.text.rlike(_ID)))
        | _ATTEMPT.is_malformed(_is_between(_ATTEMPT.text, 1, MAX_ATTEMPT))
        | _DEADLINE.is_malformed(_is_between(_DEADLINE.text, 0, MAX_EPOCH_MS))
        | _REOPENS.is_malformed(_is_between(_REOPENS.text, 0, MAX_ATTEMPT))
    )
    return {
        "is_malformed": is_malformed,
        "is_outcome": is_outcome,
        "is_named": _REQUEST_ID.is_there | is_outcome,
    }


def _said() -> dict[str, Column]:
    well_formed = ~F.col("is_malformed")
    coordinates = coordinates_id(
        F.col("topic"), F.col("partition"), F.col("offset"), F.col("timestamp_ms")
    )
    first = F.lit(1).cast("long")
    return {
        "request_id": F.when(well_formed & F.col("is_outcome"), _OUTCOME_ID.text)
        .when(well_formed & _REQUEST_ID.is_there, _REQUEST_ID.text)
        .otherwise(coordinates),
        "attempt": F.when(well_formed & _ATTEMPT.is_there, _number(_ATTEMPT.text)).otherwise(first),
        "deadline_at": F.when(well_formed & _DEADLINE.is_there, _number(_DEADLINE.text)),
    }


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
    """Return the hex digest over key and value, each after its length (docs: The guarantee)."""
    parts = [part for one in (key, value) for part in (_length(one), F.coalesce(one, _no_bytes()))]
    return F.sha2(F.concat(*parts), 256)


def _is_between(text: Column, low: int, high: int) -> Column:
    return F.when(text.rlike(_DECIMAL), _number(text).between(low, high)).otherwise(False)


def _number(text: Column) -> Column:
    return text.try_cast("long")


def _length(part: Column) -> Column:
    """Return a part's length as eight bytes, the highest first; minus one for null."""
    digits = F.hex(F.coalesce(F.octet_length(part), F.lit(-1)).cast("long"))
    return F.unhex(F.lpad(digits, 16, "0"))


def _no_bytes() -> Column:
    return F.lit(b"")
