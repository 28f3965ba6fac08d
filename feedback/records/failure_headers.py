"""The headers of records that were set aside: why, and where they came from. Pure.

Dead letters and retries carry them (contract, section 7): the first ORIGINAL_* wins, so that a
record which was set aside before keeps its first place; the last DLQ_* wins, so that of those only
the newest are kept. All are UTF-8 text, numbers in decimal.
"""

from __future__ import annotations

from feedback.records import dead_letters
from feedback.records.envelope import Headers, Record

ORIGINAL_TOPIC = "ORIGINAL_TOPIC"
ORIGINAL_PARTITION = "ORIGINAL_PARTITION"
ORIGINAL_OFFSET = "ORIGINAL_OFFSET"
ORIGINAL_TIMESTAMP = "ORIGINAL_TIMESTAMP"
ORIGINAL_KEY = "ORIGINAL_KEY"
# The request that failed: the id in a letter may be that of the request which handles it.
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
# What of the texts was cut or left out, so that the record fits into its topic.
DLQ_CUT = "DLQ_CUT"
# Which wait record has expired, where that is what the letter is about.
DLQ_WAIT_RECORD = "DLQ_WAIT_RECORD"
DLQ_REDRIVE_COUNT = "DLQ_REDRIVE_COUNT"
DLQ_REDRIVE_ID = "DLQ_REDRIVE_ID"
DLQ_REDRIVE_BY = "DLQ_REDRIVE_BY"

# Those of the last failure; what a redrive adds (DLQ_REDRIVE_*) stays.
OF_A_FAILURE = frozenset(
    {
        *(DLQ_REASON, DLQ_STAGE, DLQ_EXCEPTION_CLASS, DLQ_EXCEPTION_MESSAGE, DLQ_STACKTRACE),
        *(DLQ_CONSUMER_GROUP, DLQ_ATTEMPTS, DLQ_FIRST_FAILED_AT, DLQ_FAILED_AT, DLQ_CUT),
        DLQ_REQUEST_ID,
        DLQ_WAIT_RECORD,
    }
)
KEY_LIMIT_BYTES = 1024

_ELLIPSIS = "…"


def without_failure(headers: Headers) -> list[tuple[str, bytes]]:
    """Return the headers without those of an earlier failure, in their order."""
    return [one for one in headers if one[0] not in OF_A_FAILURE]


def originals(record: Record, *, key_limit_bytes: int = KEY_LIMIT_BYTES) -> Headers:
    """Return the ORIGINAL_* headers that the record does not have yet.

    Args:
        key_limit_bytes: the longest text of the key; the record's own key is never cut.
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
    """Return a number as a header has it."""
    return b"%d" % number


def utf8(text: str, limit_bytes: int | None = None, *, keep_end: bool = False) -> bytes:
    """Return text as a header has it, valid UTF-8 whatever it holds.

    Args:
        limit_bytes: the longest that is kept, at least 3; what is cut is marked.
        keep_end: whether the beginning is cut.

    """
    raw = text.encode("utf-8", "replace")
    if limit_bytes is None or len(raw) <= limit_bytes:
        return raw
    mark = _ELLIPSIS.encode()
    room = limit_bytes - len(mark)
    if keep_end:
        return mark + raw[len(raw) - room :].decode("utf-8", "ignore").encode()
    return raw[:room].decode("utf-8", "ignore").encode() + mark
