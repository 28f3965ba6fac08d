"""The fields of a Kafka record as Spark columns: id, attempt, deadline, payload hash.

The rules are those of docs: The guarantee, Kafka records. They are written a second time on
purpose: the audit trusts none of the code that it is a witness of.

A header of ours is well formed only when it is printable ASCII or a decimal number, so that text
which is not UTF-8 fails the same pattern as any other text: it needs no rule of its own.

Every column is one of Spark's own expressions, and none a lambda: Spark compiles the former only.

Unreadable times. A sender that gives nanoseconds for milliseconds writes one, and brokers before
Kafka 4 take it by default. The error names no record, and each later audit would end with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from feedback.errors import NotAvailable
from feedback.kafka.questions import asking
from feedback.settings.settings import KafkaSection
from spark_audit.stage.manifest import Manifest

_NUMBER = r"\A[0-9]{1,18}\z"


@dataclass(frozen=True, slots=True)
class RecordHeaders:
    """All headers of a record.

    Args:
        names: array of text; null where a record has none.
        values: array of bytes, in the same order.
    """

    names: Column
    values: Column

    def first_text(self, name: str) -> Column:
        """Return the first header of this name as text; null where there is none."""
        return _as_text(self.value(self.position(name)))

    def last_text(self, name: str) -> Column:
        """Return the last header of this name as text; null where there is none."""
        return RecordHeaders(F.reverse(self.names), F.reverse(self.values)).first_text(name)

    def first_number(self, name: str) -> Column:
        """Return the first header of this name as a number; null where it is none."""
        text = self.first_text(name)
        return F.when(text.rlike(_NUMBER), text.try_cast("long"))

    def position(self, name: str) -> Column:
        """Return where the first of this name stands, from one on; zero where there is none."""
        return F.coalesce(F.array_position(self.names, name), F.lit(0).cast("long"))

    def value(self, position: Column) -> Column:
        """Return the bytes that stand there; null where nothing does."""
        return F.get(self.values, (position - 1).cast("int"))

    def is_repeated(self, name: str) -> Column:
        """Return whether there are several of this name. False or null where there is none."""
        others = F.size(F.array_remove(self.names, name))
        return (self.position(name) > 0) & (F.size(self.names) - others > 1)


class RecordHeader:
    """One header, in columns of its own: a projection that has them has read it once for all."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_there, self._is_repeated, self._text = (
            f"_{what} {name}" for what in ("is_there", "is_repeated", "text")
        )

    def columns(self, headers: RecordHeaders) -> dict[str, Column]:
        """Return the columns that the others are made of, by name."""
        position = headers.position(self._name)
        # A header without a value counts as an empty one.
        value = F.coalesce(headers.value(position), F.lit(b""))
        return {
            self._is_there: position > 0,
            self._is_repeated: headers.is_repeated(self._name),
            self._text: value.cast("string"),
        }

    @property
    def is_there(self) -> Column:
        """Whether the record has one."""
        return F.col(self._is_there)

    @property
    def text(self) -> Column:
        """The first one's; empty where there is none."""
        return F.col(self._text)

    def is_malformed(self, is_right: Column) -> Column:
        """Return whether it is there and repeated, or there and not right."""
        return self.is_there & (F.col(self._is_repeated) | ~is_right)


def _as_text(raw: Column) -> Column:
    # Anybody may have written it: bytes that are not UTF-8 must not reach a Parquet file's text.
    return F.make_valid_utf8(raw.cast("string"))


# The first millisecond of which the microseconds are no 64-bit number.
UNREADABLE_MS = (2**63 - 1) // 1000 + 1


@contextmanager
def naming_unreadable_times(settings: KafkaSection, manifest: Manifest) -> Iterator[None]:
    """Turn a failure to read records into the name of the record that Spark cannot read.

    Args:
        manifest: the limits within which records are read.

    Raises:
        NotAvailable: names the first such record; or as it was raised, where there is none.
    """
    try:
        yield
    except NotAvailable as error:
        places = {(one.topic, one.partition): one for one in manifest.partitions}
        with asking(settings) as kafka:
            found = kafka.at_time(places, UNREADABLE_MS)
        for (topic, number), offset in sorted(found.items()):
            limits = places[topic, number]
            if limits.begin <= offset < limits.end:
                raise NotAvailable(
                    f"the record {topic}-{number} at offset {offset} has a time that Spark cannot "
                    "read (are its sender's nanoseconds taken for milliseconds?): no audit reads "
                    "beyond it while Kafka has it; when its workers have delivered it, delete up "
                    "to it (kafka-delete-records.sh), and let message.timestamp.after.max.ms of "
                    "the topic refuse such times"
                ) from error
        raise


REQUEST_ID = "onceward-request-id"
ATTEMPT = "onceward-attempt"
DEADLINE = "onceward-deadline"
REOPENS = "onceward-reopens"
GROUP = "onceward-group"
OUTCOME_ID = "onceward-outcome-id"

MAX_ID_LENGTH = 128
MAX_ATTEMPT = 2**31 - 1
# The end of the year 9999.
MAX_EPOCH_MS = 253_402_300_799_999

# \A and \z: Java's $ also matches before a newline at the end.
_ID = r"\A[!-~]{1,128}\z"
_DECIMAL = r"\A[0-9]{1,15}\z"

_OURS = tuple(map(RecordHeader, (REQUEST_ID, ATTEMPT, DEADLINE, REOPENS, GROUP, OUTCOME_ID)))
_REQUEST_ID, _ATTEMPT, _DEADLINE, _REOPENS, _GROUP, _OUTCOME_ID = _OURS


def header_columns(headers: RecordHeaders) -> dict[str, Column]:
    """Return the columns of a frame's headers that `with_envelope` needs, by name."""
    return {name: column for one in _OURS for name, column in one.columns(headers).items()}


def with_envelope(frame: DataFrame, group: str) -> DataFrame:
    """Return records with the values of our headers, in these columns:

    - `request_id`: the header's, else, and where a header is malformed, the coordinates.
    - `attempt`: 1 where none is named, or a header is malformed.
    - `deadline_at`: epoch ms; null where none is named, or a header is malformed.
    - `reopens`: the highest generation whose failure it may reopen in this group; null where it
      does not say so, or a header is malformed.
    - `is_malformed`: whether a header of ours is repeated or breaks section 7.
    - `is_outcome`: whether the record says how another request has ended. Its id is then that of
      the outcome: to a group that reads it, it is a request of its own.
    - `is_named`: whether a header names the id.

    Args:
        frame: with topic, partition, offset, timestamp_ms (epoch ms), and `header_columns` in a
            projection of their own. In one projection with the columns made of them, Spark would
            read the same header at each of some thirty places.
    """
    return frame.withColumns(_judged()).withColumns(_said(group))


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
        | _GROUP.is_malformed(F.is_valid_utf8(_GROUP.text))
    )
    return {
        "is_malformed": is_malformed,
        "is_outcome": is_outcome,
        "is_named": _REQUEST_ID.is_there | is_outcome,
    }


def _said(group: str) -> dict[str, Column]:
    well_formed = ~F.col("is_malformed")
    coordinates = coordinates_id(
        F.col("topic"), F.col("partition"), F.col("offset"), F.col("timestamp_ms")
    )
    first = F.lit(1).cast("long")
    is_for_others = _GROUP.is_there & (_GROUP.text != group)
    reopens = F.when(is_for_others, F.lit(0).cast("long")).when(
        _REOPENS.is_there, _number(_REOPENS.text)
    )
    return {
        "request_id": F.when(well_formed & F.col("is_outcome"), _OUTCOME_ID.text)
        .when(well_formed & _REQUEST_ID.is_there, _REQUEST_ID.text)
        .otherwise(coordinates),
        "attempt": F.when(well_formed & _ATTEMPT.is_there, _number(_ATTEMPT.text)).otherwise(first),
        "deadline_at": F.when(well_formed & _DEADLINE.is_there, _number(_DEADLINE.text)),
        "reopens": F.when(well_formed, reopens),
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


def if_request_id(text: Column) -> Column:
    """Return text that is a request id; null where it is none.

    Ids reach SQL, and a database may refuse text that is none: PostgreSQL knows no NUL.
    """
    return F.when(text.rlike(_ID), text)


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
