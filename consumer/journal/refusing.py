"""Refusals: every record that is refused leaves a row, so the audit never takes it for a loss."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sqlalchemy import Connection

from consumer.journal.batch import REFUSALS, carry
from consumer.journal.claim_sql import insert_refusals
from consumer.journal.history import read
from consumer.journal.records import Refusal, Row


def refuse(
    connection: Connection,
    group: str,
    worker_id: str,
    refusals: Sequence[Refusal],
    *,
    outcome_topics: Collection[str] = (),
) -> list[Row]:
    """Return the row of each refusal, written now unless it was there already.

    Args:
        outcome_topics: those whose outcomes are wanted.
    """
    dialect = connection.dialect.name
    distinct = {refusal.request_id: refusal for refusal in reversed(refusals)}
    rows = [
        (
            group,
            request_id,
            refusal.topic,
            refusal.partition,
            refusal.offset,
            carry(refusal.message_key, dialect),
            refusal.payload_sha256,
            refusal.attempt,
            refusal.deadline_at,
            refusal.code,
            refusal.message,
        )
        for request_id, refusal in sorted(distinct.items())
    ]
    parameters: dict[str, object] = {**REFUSALS.load(connection, rows), "this_worker": worker_id}
    if outcome_topics:
        parameters["outcome_topics"] = sorted(outcome_topics)
    connection.execute(insert_refusals(dialect, outcomes=bool(outcome_topics)), parameters)
    found, _ = read(connection, group, distinct)
    return [found[refusal.request_id] for refusal in refusals if refusal.request_id in found]
