"""Rows that are behind the status of their clients are brought forward. Rare, so row by row."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import ColumnElement, null

from consumer.journal.claims.forgetting import MESSAGE, forgotten_among
from consumer.journal.claims.takeover import living
from consumer.journal.clock import now_ms
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.losses.lost_rows import (
    claimed_at,
    insert_lost,
    overwrite_lost,
    why_followed,
)
from consumer.journal.losses.told_rule import ToldRun, catch_up_with
from consumer.journal.records import JournalState, Row

_NEVER_BEGAN = (JournalState.EXPIRED, JournalState.SKIPPED)


def catch_up(
    writer: JournalWriter,
    runs: Sequence[ToldRun],
    *,
    may_overwrite_claims: bool = False,
    going_on: Collection[str] = (),
) -> list[Row]:
    """Write the runs that Redis knows and the journal has lost; return those rows.

    A run whose end nobody knows becomes a claim: its owner goes on with it, or, where that is gone,
    a sweep does, by the policy of its handler.

    Args:
        may_overwrite_claims: of workers whose lease is over; else claims stay as they are.
        going_on: of these requests alone, also the claims of the writer, which is about to go on
            with them.
    """
    told = {one.request_id: one for one in runs}
    found, _ = writer.read(told)
    behind = [name for name, one in told.items() if _is_behind(one, found.get(name))]
    if not behind:
        return []
    locked, _ = writer.read(behind, lock=True)
    # Asked of the locked rows alone: another worker may have written an end since.
    for name in _pruned(writer, [told[name] for name in behind], locked):
        told[name] = told[name].pruned(MESSAGE)
    alive = living(writer.connection, {row.owner for row in locked.values()})
    for name in sorted(behind):
        row = locked.get(name)
        # Others may have gone on with a claim of ours while we stood still, and that is lost.
        lives = alive - {writer.worker_id} if name in going_on else alive
        may_overwrite = may_overwrite_claims or name in going_on
        is_gone = may_overwrite and row is not None and row.owner not in lives
        one = catch_up_with(told[name], row, owner_is_gone=is_gone)
        if one is not None and row is None:
            insert_lost(writer, one.claim, _values(one))
        elif one is not None and row is not None:
            known = told[name]
            why = why_followed(row, known.claim, known.generation, is_raised=one.is_raised)
            overwrite_lost(writer, row, _overwritten(one, row), why=why)
    rows, _ = writer.read(behind)
    return [row for row in rows.values() if row != found.get(row.request_id)]


def _pruned(writer: JournalWriter, told: Iterable[ToldRun], found: Mapping[str, Row]) -> set[str]:
    """Return which of these were pruned since: they run no more, and nobody knows how they ended.

    A row that stands there all the same is that of a record that was read after that, too late for
    a claim. Any other one shows that nothing was pruned.
    """
    rows = ((one, found.get(one.request_id)) for one in told if one.is_open)
    asked = [one.claim for one, row in rows if row is None or row.is_unclaimed_end]
    return forgotten_among(writer.connection, writer.group, asked)


def _is_behind(one: ToldRun, row: Row | None) -> bool:
    return catch_up_with(one, row, owner_is_gone=True) is not None


def _overwritten(one: ToldRun, row: Row) -> dict[str, Any]:
    return {
        **_values(one),
        "attempt": max(row.attempt, one.claim.attempt),
        "deadline_at": max(row.deadline_at, one.claim.deadline_at),
        "effect_kind": one.claim.effect_kind,
        "in_doubt": one.claim.in_doubt,
        "voids": one.claim.voids,
    }


def _effect_at(one: ToldRun) -> ColumnElement[Any] | int:
    """Return when its effect began: the mark of that is lost as well."""
    is_undone = one.claim.effect_kind == "transactional" or one.state in _NEVER_BEGAN
    return null() if is_undone else claimed_at(one.claim)


def _claimed_at(one: ToldRun) -> ColumnElement[Any] | int:
    """Return when it was claimed: never, where its end needs no claim and none was told."""
    was_claimed = one.state not in _NEVER_BEGAN or one.claim.claimed_at is not None
    return claimed_at(one.claim) if was_claimed else null()


def _values(one: ToldRun) -> dict[str, Any]:
    is_open = one.state == JournalState.CLAIMED
    return {
        "generation": one.generation,
        "effect_at": _effect_at(one),
        "state": one.state.value,
        "owner": one.owner,
        "claimed_at": _claimed_at(one),
        "due_at": null(),
        "finished_at": null() if is_open else now_ms(),
        "code": one.code,
        "message": one.message,
        "result": one.result,
        "resend": one.resend,
        "by": one.by,
        "published_at": null(),
    }
