"""Refusals: every record that is refused leaves a row, so the audit never takes it for a loss.

An existing row stays as it is, with one exception: a failure that waited for this very record, a
resend or a redrive, has failed again by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from sqlalchemy import Connection

from consumer.journal.batch import REFUSALS, carry
from consumer.journal.claim_sql import close_failures, insert_refusals, refuse_again
from consumer.journal.history import keep_runs, read
from consumer.journal.records import Refusal, Row
from consumer.journal.verdict import ClaimAction, decide_refusal


def refuse(
    connection: Connection,
    group: str,
    worker_id: str,
    refusals: Sequence[Refusal],
    *,
    outcome_topics: Collection[str] = (),
) -> list[Row]:
    """Return the row of each refusal, as it stands once it was refused."""
    distinct = {refusal.request_id: refusal for refusal in reversed(refusals)}
    parameters = _load(connection, group, worker_id, distinct, {})
    if outcome_topics:
        parameters["outcome_topics"] = sorted(outcome_topics)
    statement = insert_refusals(connection.dialect.name, outcomes=bool(outcome_topics))
    connection.execute(statement, parameters)
    found, now = read(connection, group, distinct)
    waiting = {
        name: distinct[name]
        for name, row in found.items()
        if decide_refusal(distinct[name], row, now) is not ClaimAction.ANSWER
    }
    if waiting:
        found |= _end(connection, group, worker_id, waiting)
    return [found[refusal.request_id] for refusal in refusals if refusal.request_id in found]


def _end(
    connection: Connection, group: str, worker_id: str, refusals: Mapping[str, Refusal]
) -> dict[str, Row]:
    # Decided again on locked rows: another worker may have been faster.
    rows, now = read(connection, group, refusals, lock=True)
    chosen: dict[ClaimAction, dict[str, int]] = {}
    for name, row in rows.items():
        step = decide_refusal(refusals[name], row, now)
        chosen.setdefault(step, {})[name] = row.generation
    dialect = connection.dialect.name
    for step, statement in (
        (ClaimAction.REOPEN, refuse_again(dialect)),
        (ClaimAction.CLOSE, close_failures(dialect, REFUSALS)),
    ):
        generations = chosen.get(step, {})
        if not generations:
            continue
        if step is ClaimAction.REOPEN:
            keep_runs(connection, group, generations.items(), worker_id)
        named = {name: refusals[name] for name in generations}
        parameters = _load(connection, group, worker_id, named, generations)
        answers = connection.execute(statement, parameters).all()
        rows.update({row.request_id: row for row in (Row(*answer) for answer in answers)})
    return rows


def _load(
    connection: Connection,
    group: str,
    worker_id: str,
    refusals: Mapping[str, Refusal],
    generations: Mapping[str, int],
) -> dict[str, object]:
    dialect = connection.dialect.name
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
            generations.get(request_id, 0),
        )
        for request_id, refusal in sorted(refusals.items())
    ]
    return {**REFUSALS.load(connection, rows), "this_worker": worker_id}
