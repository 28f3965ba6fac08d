"""Our own dead letters (contract, section 7)."""

from __future__ import annotations

from consumer.dlq.dialects.said import Said
from consumer.dlq.letter import Failure, Original
from feedback.records import failure_headers as names

REDRIVE_COUNT = "DLQ_REDRIVE_COUNT"
REDRIVE_ID = "DLQ_REDRIVE_ID"
REDRIVE_BY = "DLQ_REDRIVE_BY"


def onceward(said: Said) -> Failure | None:
    """Return the failure in a letter of ours; None when it is none."""
    if not said.has(names.DLQ_REASON, names.DLQ_CONSUMER_GROUP):
        return None
    reason = said.text(names.DLQ_REASON)
    return Failure(
        original=Original(
            topic=said.text(names.ORIGINAL_TOPIC, first=True),
            partition=said.decimal(names.ORIGINAL_PARTITION, first=True),
            offset=said.decimal(names.ORIGINAL_OFFSET, first=True),
            timestamp_ms=said.decimal(names.ORIGINAL_TIMESTAMP, first=True),
            key=said.text(names.ORIGINAL_KEY, first=True),
        ),
        reason=reason,
        code=reason,
        stage=said.text(names.DLQ_STAGE),
        exception_class=said.text(names.DLQ_EXCEPTION_CLASS),
        exception_message=said.text(names.DLQ_EXCEPTION_MESSAGE),
        stack=said.text(names.DLQ_STACKTRACE),
        attempts=said.decimal(names.DLQ_ATTEMPTS),
        first_failed_at=said.decimal(names.DLQ_FIRST_FAILED_AT),
        failed_at=said.decimal(names.DLQ_FAILED_AT),
        redrive_count=said.decimal(REDRIVE_COUNT) or 0,
        redrive_id=said.text(REDRIVE_ID),
        redrive_by=said.text(REDRIVE_BY),
        group=said.text(names.DLQ_CONSUMER_GROUP),
    )
