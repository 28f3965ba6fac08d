"""The id under which a dead letter is handled. Pure.

A handler of a dead letter topic runs each letter as a request of its own. The request's id derives
from the letter: a letter written twice is handled once, and the failed request keeps its own row.
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
    """Return the id under which a dead letter is handled; a long id is replaced by its hash.

    Args:
        request_id: the failed request.
        attempts: the number of the failed run; 0 when the request never ran.

    >>> letter_id("a", 3)
    'a.dlq.3'
    """
    name = request_id + _ending(attempts)
    if len(name) <= MAX_REQUEST_ID_LENGTH:
        return name
    return "sha256-" + hashlib.sha256(request_id.encode()).hexdigest() + _ending(attempts)


def envelope_of_letter(record: Record, *, group: str | None = None) -> Envelope:
    """Return the envelope of the request that a dead letter makes for its handler.

    It has no deadline: the failed request's deadline does not apply to it. A resend of it carries
    the derived id already, and keeps its attempt and deadline.

    Args:
        group: as for `decode_headers`.

    Raises:
        InvalidMessage: a header of ours is malformed.
    """
    sent = decode_headers(record, group=group)
    failed, attempts = name_of_letter(record.headers)
    if failed is None and sent.request_id.endswith(_ending(attempts)):
        return sent  # a resend of a letter without our header
    derived = letter_id(sent.request_id if failed is None else failed, attempts)
    return sent if sent.request_id == derived else Envelope(derived)


def name_of_letter(headers: Headers) -> tuple[str | None, int]:
    """Return the failed request's id, None where the header is missing, and the failed run.

    Raises:
        InvalidMessage: the header holds no valid request id.
    """
    last = dict(headers)
    failed = last.get(DLQ_REQUEST_ID)
    attempts = last.get(DLQ_ATTEMPTS) or b""
    number = int(attempts) if _NUMBER.fullmatch(attempts) else 0
    if failed is None:
        return None, number
    return check_request_id(failed.decode("utf-8", "replace")), number


def failed_request_id(request_id: str, attempts: int) -> str:
    """Return the failed request's id from the derived id, unless a hash replaced it.

    >>> failed_request_id("a.dlq.3", 3)
    'a'
    """
    return request_id.removesuffix(_ending(attempts))


def _ending(attempts: int) -> str:
    return f".dlq.{attempts}"
