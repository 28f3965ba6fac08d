"""Own runs that the database has lost: written again, or given up for a sweep to settle.

A commit that was acknowledged may be gone after a failover to a standby that lagged, or after a
crash with `synchronous_commit=off`. What a worker knows of its own runs is then more than the
journal does. Rare, so row by row.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    Update,
    and_,
    bindparam,
    case,
    func,
    literal_column,
    null,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite

from consumer.journal.claim_sql import EXTERNAL
from consumer.journal.clock import now_ms
from consumer.journal.finishing import finish, mark_effects
from consumer.journal.history import ROW_COLUMNS, keep_runs, read
from consumer.journal.records import DISOWNED, WORKER_DIED, EffectMark, OwnRun, Row, State
from consumer.journal.tables import request
from consumer.journal.verdict import is_lost

Name = tuple[str, int]


def restore(
    connection: Connection,
    group: str,
    worker_id: str,
    runs: Sequence[OwnRun],
    *,
    outcome_topics: Collection[str] = (),
) -> list[Row]:
    """Write again what the database has lost of these runs; return the rows that were.

    A row that says more than the worker knows stays as it is.

    Args:
        outcome_topics: those whose outcomes are wanted.
    """
    latest = {one.request_id: one for one in sorted(runs, key=lambda one: one.generation)}
    found, _ = read(connection, group, latest)
    lost = {name for name, one in latest.items() if is_lost(one, found.get(name))}
    locked, _ = read(connection, group, lost, lock=True)
    for name in sorted(lost):
        one, row = latest[name], locked.get(name)
        if row is None:
            _insert(connection, group, worker_id, one, outcome=one.claim.topic in outcome_topics)
        elif row.generation < one.generation:
            _overwrite(connection, group, worker_id, one, row)
        elif one.finish is not None:
            finish(connection, group, worker_id, [one.finish])
        else:
            mark_effects(connection, group, worker_id, [EffectMark(name, one.generation)])
    rows, _ = read(connection, group, lost)
    return list(rows.values())


def find_own(connection: Connection, group: str, *, worker_id: str) -> list[Row]:
    """Return the claims of a worker."""
    parameters = {"this_group": group, "this_worker": worker_id}
    return [Row(*answer) for answer in connection.execute(_OWN, parameters).all()]


def disown(connection: Connection, group: str, runs: Sequence[Name], *, worker_id: str) -> None:
    """Let claims of a worker count as left by a dead one, in doubt where that is possible."""
    for request_id, generation in sorted(runs):
        parameters = {
            "this_group": group,
            "this_worker": worker_id,
            "this_request": request_id,
            "this_generation": generation,
            "nobody": worker_id + DISOWNED,
        }
        connection.execute(_DISOWN, parameters)


def _insert(
    connection: Connection, group: str, worker_id: str, one: OwnRun, *, outcome: bool
) -> None:
    make = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    values = {
        **_values(one, worker_id),
        "group": group,
        "request_id": one.request_id,
        "payload_sha256": one.claim.payload_sha256,
        "outcome_generation": 0 if outcome else None,
    }
    # Another worker may have been faster: what it wrote is looked at the next time.
    connection.execute(make(request).values(values).on_conflict_do_nothing())


def _overwrite(connection: Connection, group: str, worker_id: str, one: OwnRun, row: Row) -> None:
    # Of an older claim that stands there nobody knows the end any more.
    outcome = WORKER_DIED if row.state == State.CLAIMED else None
    name = (row.request_id, row.generation)
    keep_runs(connection, group, [name], worker_id, outcome=outcome)
    parameters = {
        "this_group": group,
        "this_request": row.request_id,
        "this_generation": row.generation,
    }
    values = {**_values(one, worker_id), "by": null(), "dead_letter_at": null()}
    connection.execute(_OVERWRITE.values(values), parameters)


def _values(one: OwnRun, worker_id: str) -> dict[str, Any]:
    """Return what a run of ours says of its row, by the names of the columns."""
    claim, end = one.claim, one.finish
    began = one.entered or claim.effect_kind == EXTERNAL
    delay_ms = None if end is None else end.delay_ms
    return {
        "topic": claim.topic,
        "partition": claim.partition,
        "offset": claim.offset,
        "message_key": claim.message_key,
        "attempt": claim.attempt,
        "generation": one.generation,
        "effect_kind": claim.effect_kind,
        "effect_at": now_ms() if began else null(),
        "in_doubt": claim.in_doubt,
        "voids": claim.voids,
        "deadline_at": claim.deadline_at,
        "order_key": claim.order_key,
        "state": State.CLAIMED.value if end is None else end.state,
        "owner": worker_id,
        "claimed_at": now_ms(),
        "due_at": null() if delay_ms is None else now_ms() + delay_ms,
        "finished_at": null() if end is None else now_ms(),
        "code": None if end is None else end.code,
        "message": None if end is None else end.message,
        "result": None if end is None else end.result,
        "resend": end is not None and end.resend,
        "published_at": null(),
    }


def _find_own() -> Select[Any]:
    return select(*ROW_COLUMNS).where(
        request.c.group == bindparam("this_group"),
        request.c.owner == bindparam("this_worker"),
        # Spelled out, for the partial index.
        request.c.state == literal_column(f"'{State.CLAIMED.value}'"),
    )


def _named() -> Update:
    return update(request).where(
        request.c.group == bindparam("this_group"),
        request.c.request_id == bindparam("this_request"),
        request.c.generation == bindparam("this_generation"),
    )


_OWN = _find_own()
_OVERWRITE = _named()
# A transactional run whose finish is gone has left nothing. Of any other the mark may be gone too.
_DISOWN = (
    _named()
    .where(
        and_(
            request.c.owner == bindparam("this_worker"),
            request.c.state == State.CLAIMED.value,
        )
    )
    .values(
        owner=bindparam("nobody"),
        effect_at=case(
            (request.c.effect_kind == "transactional", request.c.effect_at),
            else_=func.coalesce(request.c.effect_at, now_ms()),
        ),
    )
)
