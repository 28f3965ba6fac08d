"""The headers of dead letters and retries: the reason, and the original record. Pure.

The rules: docs: Kafka records. The first ORIGINAL_* wins, so that a record which failed before
keeps its first coordinates. The last DLQ_* wins, so that only the newest failure is described. All
are UTF-8 text, numbers in decimal.
"""

from __future__ import annotations

from feedback.records import dead_letters
from feedback.records.envelope import Headers, Record

ORIGINAL_TOPIC = "ORIGINAL_TOPIC"
ORIGINAL_PARTITION = "ORIGINAL_PARTITION"
ORIGINAL_OFFSET = "ORIGINAL_OFFSET"
ORIGINAL_TIMESTAMP = "ORIGINAL_TIMESTAMP"
ORIGINAL_KEY = "ORIGINAL_KEY"
# The failed request. A letter's own id may be that of the request which handles the letter.
DLQ_REQUEST_ID = dead_letters.DLQ_REQUEST_ID
DLQ_REASON = "DLQ_REASON"
DLQ_STAGE = "DLQ_STAGE"
DLQ_EXCEPTION_CLASS = "DLQ_EXCEPTION_CLASS"
DLQ_EXCEPTION_MESSAGE = "DLQ_EXCEPTION_MESSAGE"
DLQ_STACKTRACE = "DLQ_STACKTRACE"
DLQ_CONSUMER_GROUP = "DLQ_CONSUMER_GROUP"
DLQ_ATTEMPTS = dead_letters.DLQ_ATTEMPTS
DLQ_FIRST_FAILED_AT = "DLQ_FIRST_FAILED_AT"
DLQ_FAILED_AT = "DLQ_FAILED_AT"
# Names the texts that were cut or left out, so that the record fits into its topic.
DLQ_CUT = "DLQ_CUT"
# The expired wait record, in a letter about one.
DLQ_WAIT_RECORD = "DLQ_WAIT_RECORD"
DLQ_REDRIVE_COUNT = "DLQ_REDRIVE_COUNT"
DLQ_REDRIVE_ID = "DLQ_REDRIVE_ID"
DLQ_REDRIVE_BY = "DLQ_REDRIVE_BY"

# The headers of the last failure; the redrive's own (DLQ_REDRIVE_*) stay.
OF_A_FAILURE = frozenset(
    {
        *(DLQ_REASON, DLQ_STAGE, DLQ_EXCEPTION_CLASS, DLQ_EXCEPTION_MESSAGE, DLQ_STACKTRACE),
        *(DLQ_CONSUMER_GROUP, DLQ_ATTEMPTS, DLQ_FIRST_FAILED_AT, DLQ_FAILED_AT, DLQ_CUT),
        DLQ_REQUEST_ID,
        DLQ_WAIT_RECORD,
    }
)
KEY_LIMIT_BYTES = 1024
# The largest numbers of Kafka and of the journal's columns.
MAX_PARTITION = 2**31 - 1
MAX_NUMBER = 2**63 - 1
# A taking over adds 1: those that follow have room.
MAX_GENERATION = 2**62 - 1
_MAX_DIGITS = 19

_ELLIPSIS = "…"


def without_failure(headers: Headers) -> list[tuple[str, bytes]]:
    """Return the headers without those of an earlier failure, in their order."""
    return [one for one in headers if one[0] not in OF_A_FAILURE]


def originals(record: Record, *, key_limit_bytes: int = KEY_LIMIT_BYTES) -> Headers:
    """Return the ORIGINAL_* headers that the record does not have yet.

    Args:
        record: the record that failed.
        key_limit_bytes: the longest ORIGINAL_KEY; the record's own key is never cut.
    """
    known = {name for name, _ in record.headers}
    wanted = [
        (ORIGINAL_TOPIC, utf8(record.topic)),
        (ORIGINAL_PARTITION, decimal(record.partition)),
        (ORIGINAL_OFFSET, decimal(record.offset)),
    ]
    if record.timestamp_ms >= 0:
        wanted.append((ORIGINAL_TIMESTAMP, decimal(record.timestamp_ms)))
    if record.key is not None and key_limit_bytes:
        key = record.key[: 4 * key_limit_bytes].decode("utf-8", "replace")
        wanted.append((ORIGINAL_KEY, utf8(key, key_limit_bytes)))
    return [(name, value) for name, value in wanted if name not in known]


def decimal(number: int) -> bytes:
    """Return a number as the text of a header."""
    return b"%d" % number


def number_of(raw: bytes | None, *, largest: int = MAX_NUMBER) -> int | None:
    """Return the number of a header that anybody may have written; None where it is none.

    Args:
        raw: the header's value; None where it is not there.
        largest: no number above it is believed.

    >>> number_of(b"7"), number_of(b"-7"), number_of(b"2147483648", largest=MAX_PARTITION)
    (7, None, None)
    """
    # No sign, no space, no digits of other scripts: only 0 to 9. int() of longer text costs time.
    if raw is None or len(raw) > _MAX_DIGITS or not raw.isdigit():
        return None
    number = int(raw)
    return number if number <= largest else None


def utf8(text: str, limit_bytes: int | None = None, *, keep_end: bool = False) -> bytes:
    """Return text as the bytes of a header: valid UTF-8, and cut at `limit_bytes` with a mark.

    Args:
        text: any text, also one with lone surrogates.
        limit_bytes: the most bytes to return, at least 3; None: all.
        keep_end: cut the beginning instead of the end.
    """
    raw = text.encode("utf-8", "replace")
    if limit_bytes is None or len(raw) <= limit_bytes:
        return raw
    mark = _ELLIPSIS.encode()
    room = limit_bytes - len(mark)
    if keep_end:
        return mark + raw[len(raw) - room :].decode("utf-8", "ignore").encode()
    return raw[:room].decode("utf-8", "ignore").encode() + mark
