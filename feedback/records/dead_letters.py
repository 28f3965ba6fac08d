"""The id under which a dead letter is handled. Pure.

A letter that is given to a handler is a request of its own. Its id derives from the letter, so that
one which was written twice is handled once, and the request that failed keeps its own row.
"""

from __future__ import annotations

import hashlib
import re

from feedback.records.envelope import (
    MAX_REQUEST_ID_LENGTH,
    Envelope,
    Headers,
    Record,
    check_request_id,
    decode_headers,
)

DLQ_ATTEMPTS = "DLQ_ATTEMPTS"
DLQ_REQUEST_ID = "DLQ_REQUEST_ID"

_NUMBER = re.compile(rb"[0-9]{1,10}")


def letter_id(request_id: str, attempts: int) -> str:
    """Return the id under which a dead letter is handled; of a long id its hash takes the place.

    Args:
        request_id: the request that failed.
        attempts: which of its runs; 0 when it never ran.

    >>> letter_id("a", 3)
    'a.dlq.3'
    """
    name = request_id + _ending(attempts)
    if len(name) <= MAX_REQUEST_ID_LENGTH:
        return name
    return "sha256-" + hashlib.sha256(request_id.encode()).hexdigest() + _ending(attempts)


def envelope_of_letter(record: Record) -> Envelope:
    """Return what is asked for by a letter that is given to a handler.

    Its deadline is none: that of the request that failed is over, or has nothing to do with it. A
    resend is told by its id, which is the derived one already, and keeps attempt and deadline.

    Raises:
        InvalidMessage: a header of ours is malformed.
    """
    sent = decode_headers(record)
    failed, attempts = name_of_letter(record.headers)
    if failed is None and sent.request_id.endswith(_ending(attempts)):
        return sent  # of a letter that others wrote
    derived = letter_id(sent.request_id if failed is None else failed, attempts)
    return sent if sent.request_id == derived else Envelope(derived)


def name_of_letter(headers: Headers) -> tuple[str | None, int]:
    """Return which request a letter says has failed, None where it does not, and in which run.

    Raises:
        InvalidMessage: what it says is no id.
    """
    last = dict(headers)
    failed = last.get(DLQ_REQUEST_ID)
    attempts = last.get(DLQ_ATTEMPTS) or b""
    number = int(attempts) if _NUMBER.fullmatch(attempts) else 0
    if failed is None:
        return None, number
    return check_request_id(failed.decode("utf-8", "replace")), number


def failed_request_id(request_id: str, attempts: int) -> str:
    """Return the id of the request that failed, as far as the derived one shows it.

    >>> failed_request_id("a.dlq.3", 3)
    'a'
    """
    return request_id.removesuffix(_ending(attempts))


def _ending(attempts: int) -> str:
    return f".dlq.{attempts}"
