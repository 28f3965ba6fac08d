"""The dead letter that its handler is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from feedback.errors import InvalidMessage
from feedback.records import failure_headers as names
from feedback.records.dead_letters import failed_request_id, name_of_letter


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A request that failed for good; a field that the letter lacks is empty, 0 or None.

    Attributes:
        request_id: the request that failed; the handler runs under an id of its own.
        reason: its stable code. stage: how far it came: `receive`, `claim` or `run`.
        exception_class, exception_message, stacktrace: the error of its handler.
        attempts: how many runs it had. first_failed_at, failed_at: epoch ms.
        topic, partition, offset, timestamp: where it was sent to first. key: as it was sent.
        group: whose failure it is.
        redrive_count, redrive_id, redrive_by: how often it was sent back, the last time, by whom.
        cut: the names of the headers that were shortened.
    """

    request_id: str
    reason: str = ""
    stage: str = ""
    exception_class: str = ""
    exception_message: str = field(default="", repr=False)
    stacktrace: str = field(default="", repr=False)
    attempts: int = 0
    first_failed_at: int | None = None
    failed_at: int | None = None
    topic: str = ""
    partition: int | None = None
    offset: int | None = None
    timestamp: int | None = None
    key: bytes | None = field(default=None, repr=False)
    group: str = ""
    redrive_count: int = 0
    redrive_id: str = ""
    redrive_by: str = ""
    cut: tuple[str, ...] = ()


def read_dead_letter(
    request_id: str, key: bytes | None, headers: Iterable[tuple[str, bytes | None]]
) -> DeadLetter:
    """Return a letter, read from its record.

    Args:
        request_id: the id that it is handled under.
        key: the record's.
        headers: the record's; anybody may have written them.
    """
    kept = [(name, value) for name, value in headers if value is not None]
    # The first ORIGINAL_* wins and the last DLQ_* (docs: Kafka records).
    found = {**dict(kept), **{n: v for n, v in reversed(kept) if n.startswith("ORIGINAL_")}}
    try:
        failed, attempts = name_of_letter(kept)
    except InvalidMessage:
        failed, attempts = None, 0  # the intake has refused such a one

    def text(name: str) -> str:
        return found.get(name, b"").decode("utf-8", "replace")

    def number(name: str) -> int | None:
        largest = names.MAX_PARTITION if name == names.ORIGINAL_PARTITION else names.MAX_NUMBER
        return names.number_of(found.get(name), largest=largest)

    return DeadLetter(
        request_id=failed_request_id(request_id, attempts) if failed is None else failed,
        reason=text(names.DLQ_REASON),
        stage=text(names.DLQ_STAGE),
        exception_class=text(names.DLQ_EXCEPTION_CLASS),
        exception_message=text(names.DLQ_EXCEPTION_MESSAGE),
        stacktrace=text(names.DLQ_STACKTRACE),
        attempts=attempts,
        first_failed_at=number(names.DLQ_FIRST_FAILED_AT),
        failed_at=number(names.DLQ_FAILED_AT),
        topic=text(names.ORIGINAL_TOPIC),
        partition=number(names.ORIGINAL_PARTITION),
        offset=number(names.ORIGINAL_OFFSET),
        timestamp=number(names.ORIGINAL_TIMESTAMP),
        key=key,
        group=text(names.DLQ_CONSUMER_GROUP),
        redrive_count=number(names.DLQ_REDRIVE_COUNT) or 0,
        redrive_id=text(names.DLQ_REDRIVE_ID),
        redrive_by=text(names.DLQ_REDRIVE_BY),
        cut=tuple(one for one in text(names.DLQ_CUT).split(",") if one),
    )
