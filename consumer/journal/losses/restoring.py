"""Own runs that the database has lost: written again, or given up for a sweep to settle.

A commit that was acknowledged may be gone after a failover to a standby that lagged, or after a
crash with `synchronous_commit=off`. A worker then knows more of its own runs than the journal does.
Rare, so row by row.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Select, and_, bindparam, case, func, null, select

from consumer.journal.claims.claim_sql import EXTERNAL
from consumer.journal.claims.finishing import finish, mark_effects
from consumer.journal.claims.forgetting import as_forgotten, forgotten_among
from consumer.journal.claims.verdict import gives_way, is_claimed_anew, is_lost
from consumer.journal.clock import now_ms
from consumer.journal.history import row_columns
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.losses.lost_rows import (
    TRANSACTIONAL,
    as_denied,
    claim_values,
    claimed_at,
    insert_lost,
    named_run,
    overwrite_lost,
    why_followed,
)
from consumer.journal.open_requests import open_requests, require_complete
from consumer.journal.records import (
    EffectMark,
    Finish,
    FinishKind,
    FinishResult,
    JournalState,
    OwnRun,
    Row,
    Run,
)
from consumer.journal.state_literals import CLAIMED
from consumer.journal.tables import request
from feedback.status import DISOWNED


def restore(writer: JournalWriter, runs: Sequence[OwnRun]) -> list[Row]:
    """Write these runs again where the database has lost them; return those rows.

    A row that says more than the worker knows stays as it is. Of an earlier run it is written how
    that ended, where its row still stands: else the history would know of no end. A run that may
    have acted comes over the one of a peer that claimed its generation anew. A run that no
    child took may be granted again once it is written; so it is not where another one may act, or
    may have acted. Over an end without a claim an unfinished run comes in doubt (`as_denied`).
    """
    found, _ = writer.read({one.request_id for one in runs})
    runs = [*_without_surpassed(writer, runs, found)]
    latest = {one.request_id: one for one in sorted(runs, key=lambda one: one.generation)}
    worker_id = writer.worker_id
    lost = {name for name, one in latest.items() if is_lost(one, found.get(name), worker_id)}
    # Another run may have followed, and was pruned since.
    absent = [latest[name].claim for name in lost - found.keys() if latest[name].may_be_followed]
    for name in forgotten_among(writer.connection, writer.group, absent):
        latest[name] = as_forgotten(latest[name])
    locked, _ = writer.read(lost, lock=True)
    lost = {name for name in lost if _is_still_lost(latest[name], locked.get(name), worker_id)}
    for one in sorted(runs, key=lambda one: one.run):
        row = locked.get(one.request_id)
        is_before = one.run != latest[one.request_id].run
        is_it = row is not None and (row.generation, row.owner) == (one.generation, worker_id)
        if is_before and is_it and row is not None:
            _write_again(writer, one, row)
    locked, _ = writer.read(lost, lock=True)
    for name in sorted(lost):
        one, row = latest[name], locked.get(name)
        if row is None:
            insert_lost(writer, one.claim, _values(one, worker_id))
        elif _is_of_another_claim(one, row, worker_id):
            one = as_denied(one, row)
            values = {**claim_values(one.claim), **_values(one, worker_id), "by": null()}
            why = why_followed(row, one.claim, one.generation)
            overwrite_lost(writer, row, values, why=why)
        else:
            _write_again(writer, one, row)
    rows, _ = writer.read(lost)
    return list(rows.values())


def finish_over(
    writer: JournalWriter, finishes: Sequence[Finish], results: dict[Run, FinishResult]
) -> list[Row]:
    """Write ends over the rows that stand for their runs, whose claims are lost; return those rows.

    At once: until then the run of a peer would be let into its effect, or could end.

    Args:
        results: of these finishes; those that are written now are changed.
    """
    lost = {one.run: one for one in finishes if _is_lost_here(one, results[one.run])}
    if not lost:
        return []
    rows = restore(writer, [own for one in lost.values() for own in _own_run(one)])
    for row in rows:
        run = (row.request_id, row.generation)
        end = lost[run]
        is_as_asked = row.code == end.code
        other = None if is_as_asked else end._replace(code=row.code, message=row.message)
        results[run] = FinishResult(FinishKind.WRITTEN, resolution=other)
    return rows


def _is_lost_here(one: Finish, result: FinishResult) -> bool:
    """Whether another run, or none, stands under the generation of a run whose claim is lost."""
    if result.kind is not FinishKind.LOST or result.row is None:
        return False
    return result.row.generation == one.generation


def _own_run(one: Finish) -> Iterator[OwnRun]:
    """Yield the run that ended, where its claim is known; it may have had its effect."""
    if one.claim is not None:
        entered = one.claim.effect_kind != TRANSACTIONAL
        yield OwnRun(one.claim, one.generation, entered, one)


def _without_surpassed(
    writer: JournalWriter, runs: Sequence[OwnRun], found: Mapping[str, Row]
) -> Iterator[OwnRun]:
    """Leave out runs that no child took where another run has acted, or may act."""
    untaken = [one.claim for one in runs if not one.is_begun and one.request_id not in found]
    pruned = forgotten_among(writer.connection, writer.group, untaken)
    for one in runs:
        is_pruned = one.request_id in pruned and not one.is_begun
        if not is_pruned and not gives_way(one, found.get(one.request_id), writer.worker_id):
            yield one


def _is_still_lost(one: OwnRun, row: Row | None, worker_id: str) -> bool:
    """Say it again of the row that is locked: another worker may have been faster."""
    return is_lost(one, row, worker_id) and not gives_way(one, row, worker_id)


def _is_of_another_claim(one: OwnRun, row: Row, worker_id: str) -> bool:
    """Whether the row is of an earlier run, of another one of its generation, or of none."""
    if row.generation < one.generation or row.knows_of_no_claim:
        return True
    return is_claimed_anew(row, one.claim.claimed_at, worker_id)


def _write_again(writer: JournalWriter, one: OwnRun, row: Row) -> None:
    """Write how a run ended that stands in its row, or that its effect has begun."""
    if not is_lost(one, row, writer.worker_id):
        return
    if one.finish is not None:
        finish(writer, [one.finish])
    else:
        mark_effects(writer, [EffectMark(*one.run)])


def find_own(writer: JournalWriter) -> list[Row]:
    parameters = {"this_group": writer.group, "this_worker": writer.worker_id}
    require_complete(writer.connection)
    answers = writer.connection.execute(_find_own(writer.dialect), parameters)
    return [Row(*answer) for answer in answers.all()]


def disown(writer: JournalWriter, runs: Sequence[Run]) -> None:
    """Let claims of a worker count as left by a dead one, in doubt where that is possible."""
    nobody = writer.worker_id + DISOWNED
    for parameters in _claims_of(writer, runs):
        writer.connection.execute(_DISOWN, {**parameters, "nobody": nobody})


def mark_unbegun(writer: JournalWriter, runs: Sequence[Run]) -> None:
    """Let claims of a worker count as those of marked runs that have not entered their effect.

    Of a plain external handler the claim itself says that the effect may have happened; that kind
    is of the run that follows.
    """
    for parameters in _claims_of(writer, runs):
        writer.connection.execute(_MARK_UNBEGUN, parameters)


def _claims_of(writer: JournalWriter, runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    for request_id, generation in sorted(runs):
        yield {
            "this_group": writer.group,
            "this_worker": writer.worker_id,
            "this_request": request_id,
            "this_generation": generation,
        }


def _values(one: OwnRun, worker_id: str) -> dict[str, Any]:
    end = one.finish
    began = one.entered or one.claim.effect_kind == EXTERNAL
    delay_ms = None if end is None else end.delay_ms
    return {
        "generation": one.generation,
        "effect_at": claimed_at(one.claim) if began else null(),
        "state": JournalState.CLAIMED.value if end is None else end.state,
        "owner": worker_id,
        "claimed_at": claimed_at(one.claim),
        "due_at": null() if delay_ms is None else now_ms() + delay_ms,
        "finished_at": null() if end is None else now_ms(),
        "code": None if end is None else end.code,
        "message": None if end is None else end.message,
        "result": None if end is None else end.result,
        "resend": end is not None and end.resend,
        "published_at": null(),
    }


@lru_cache
def _find_own(dialect: str) -> Select[Any]:
    rows = open_requests(dialect)
    return select(*row_columns(rows)).where(
        rows.c.group == bindparam("this_group"),
        rows.c.owner == bindparam("this_worker"),
        rows.c.state == CLAIMED,
    )


_MY_CLAIM = and_(
    request.c.owner == bindparam("this_worker"),
    request.c.state == JournalState.CLAIMED.value,
)
# A transactional run whose finish is gone has left nothing. Of any other the mark may be gone too.
_DISOWN = (
    named_run()
    .where(_MY_CLAIM)
    .values(
        owner=bindparam("nobody"),
        effect_at=case(
            (request.c.effect_kind == "transactional", request.c.effect_at),
            else_=func.coalesce(request.c.effect_at, now_ms()),
        ),
    )
)
_MARK_UNBEGUN = (
    named_run()
    .where(_MY_CLAIM, request.c.effect_kind == EXTERNAL)
    .values(effect_kind="marked", effect_at=null())
)
