"""Makes journal entries and pool jobs from deliveries and outcomes. Pure."""

from __future__ import annotations

from consumer.handlers.delivery import Delivery, RefusedRecord
from consumer.handlers.order_keys import order_key
from consumer.journal import Claim, Finish, Refusal, Row, Run
from consumer.journal.claims.claim_sql import EXTERNAL
from consumer.pool import Job, Outcome

CHILD_DIED = "CHILD_DIED"
CLAIM_LOST = "CLAIM_LOST"
TIMEOUT = "TIMEOUT"


def in_doubt(run: Run, code: str, message: str | None, *, claim: Claim | None = None) -> Finish:
    """The end of a run of which nobody knows whether its effect happened."""
    return Finish(
        request_id=run[0],
        generation=run[1],
        state="IN_DOUBT",
        code=code,
        message=message,
        result=None,
        resend=False,
        claim=claim,
    )


def finish(run: Run, outcome: Outcome, *, claim: Claim | None = None) -> Finish:
    """The end of a run as its child told it."""
    return Finish(
        request_id=run[0],
        generation=run[1],
        state=outcome.state,
        code=outcome.code,
        message=outcome.message,
        result=outcome.result,
        resend=outcome.resend,
        claim=claim,
    )


def claim(one: Delivery) -> Claim:
    """The wish to run a delivery."""
    record = one.record
    return Claim(
        request_id=one.request_id,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        message_key=record.key,
        payload_sha256=one.payload_sha256,
        attempt=one.envelope.attempt,
        deadline_at=one.deadline_at,
        effect_kind=one.handler.effect,
        wakes=one.wakes,
        order_key=order_key(one),
        begins_at=one.begins_at,
        in_doubt=one.handler.in_doubt,
        reopens=one.envelope.reopens,
        sent_at=one.sent_at,
        first=one.envelope.first,
        voids=one.voids,
        claimed_at=one.claimed_at or None,
    )


def claim_of_row(row: Row) -> Claim:
    """Return the claim that a row was made or reopened with, but for the key that it keeps."""
    return Claim(
        request_id=row.request_id,
        topic=row.topic,
        partition=row.partition,
        offset=row.offset,
        message_key=row.message_key,
        payload_sha256=row.payload_sha256,
        attempt=row.attempt,
        deadline_at=row.deadline_at,
        effect_kind=row.effect_kind or EXTERNAL,
        in_doubt=row.in_doubt,
        voids=row.voids,
    )


def refusal(one: RefusedRecord) -> Refusal:
    """The row of a record that never runs."""
    record = one.record
    return Refusal(
        request_id=one.request_id,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        message_key=record.key,
        payload_sha256=one.payload_sha256,
        attempt=one.attempt,
        deadline_at=one.deadline_at,
        code=one.code,
        message=one.message,
        reopens=one.reopens,
    )


def job(delivery: Delivery, row: Row, *, asks: bool = False, doubtful: bool = False) -> Job:
    """One run of a delivery, under the claim that was granted for it.

    Args:
        asks: the counterparty is asked about this run, instead of running it.
        doubtful: it follows a run that may have had its effect: the handler's predicate is not
            asked first, since a no would hide that.
    """
    record = delivery.record
    return Job(
        request_id=row.request_id,
        generation=row.generation,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        timestamp=record.timestamp_ms,
        key=record.key,
        value=record.value,
        headers=record.headers,
        attempt=delivery.envelope.attempt,
        deadline_at=delivery.deadline_at,
        voids=row.voids,
        time_limit_s=delivery.handler.time_limit_s,
        asks=asks,
        collapses=delivery.handler.collapse is not None and not doubtful,
    )
