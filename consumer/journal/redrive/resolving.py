"""A person's decision about one request: a doubt is resolved, a failure is discarded."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any

from sqlalchemy import Text, bindparam, literal_column, null
from sqlalchemy.sql.dml import ReturningUpdate

from consumer.journal.actions import Action, ActionKind, NewAction, locked_actions_of, note
from consumer.journal.batch import RUNS
from consumer.journal.claims.finishing import mark_published
from consumer.journal.clock import now_ms
from consumer.journal.errors import DataRefused
from consumer.journal.group_journal import ActingJournal
from consumer.journal.history import ROW_COLUMNS, keep_runs, read_rows, update_runs
from consumer.journal.records import JournalState, Published, Row, cleaned
from consumer.journal.redrive.other_system import (
    can_be_undone_beside,
    has_open_failure,
    is_beside,
    is_closed_beside,
)
from consumer.journal.redrive.redrive_rule import (
    NOT_FAILED,
    DiscardVerdict,
    Redrivable,
    RedriveCandidate,
    can_be_undone,
    is_discarded,
    is_sent_before,
    shown_generation,
)

RESOLVED = "RESOLVED"
# Codes by which the product itself, and readers of letters and rows, know how a request has ended
# (docs: Statuses). With one of them a person's word would be taken for a refusal, or a loss.
RESERVED_CODES = frozenset(
    {
        *("CHILD_DIED", "CLAIMED_TWICE", "CLAIM_LOST", "CRASH_LOOP", "DEADLINE_OVER", "END_LOST"),
        *("EXPIRED", "FORGOTTEN", "HANDLER_ERROR", "INVALID_MESSAGE", "JOURNAL_UNAVAILABLE"),
        "NOT_APPLICABLE",
        *("NO_HANDLER", "PAYLOAD_GONE", "PAYLOAD_MISMATCH", "QUERY_UNKNOWN", "REJECTED"),
        *("RESULT_NOT_JSON", "RESULT_REFUSED", "RESULT_TOO_LARGE", "TIMEOUT", "TOPIC_PAUSED"),
        "WORKER_DIED",
    }
)


class PersonDecisions(ActingJournal):
    """Carries out a person's decisions; see `GroupJournal`."""

    def resolve(
        self,
        request_id: str,
        *,
        has_succeeded: bool,
        result: str | None,
        code: str | None,
        reason: str,
        by: str,
        generation: int | None = None,
    ) -> tuple[bool, Row | None]:
        """End the doubt about a request; say whether that was done, and how it stands now.

        The run whose end is not known stays in the history, as it stood.

        Args:
            code: why it failed, none of `RESERVED_CODES`; of a success mostly None.
            generation: of the run whose doubt is meant; None: whichever it is.

        Raises:
            DataRefused: the database does not take the result.
            ValueError: the code is a reserved one.
        """
        if code in RESERVED_CODES:
            raise ValueError(reserved_words(code))
        given = {
            "to_state": (JournalState.SUCCEEDED if has_succeeded else JournalState.FAILED).value,
            "to_code": code,
            "to_message": None if has_succeeded else cleaned(reason),
            "to_result": result,
        }
        if "\0" in (result or "") + (code or ""):
            raise DataRefused("NUL in text")
        with self._session.deed() as connection:
            rows, _ = read_rows(connection, self._group, [request_id], lock=True)
            row = rows.get(request_id)
            if row is None or row.state != JournalState.IN_DOUBT:
                return False, row
            if generation not in (None, row.generation):
                return False, row
            keep_runs(connection, self._group, [(request_id, row.generation)], cleaned(by))
            names = [(self._group, request_id, row.generation)]
            parameters = {**RUNS.load(connection, names), **given}
            answer = connection.execute(_resolve(connection.dialect.name), parameters).one()
            new_action = NewAction(request_id, row.generation, reason)
            note(connection, self._group, [new_action], ActionKind.RESOLVE, by=by)
        return True, Row(*answer)

    def discard(
        self,
        wanted: Sequence[RedriveCandidate],
        *,
        by: str,
        reason: str,
        is_trial: bool = False,
        takes_sent: bool = False,
    ) -> list[Redrivable | None]:
        """Say of failures that nothing is to be done about them; None for each that it was said of.

        A request that the journal does not know can be discarded as well: its letter is. So is a
        failure in another system, whatever the row of this group says, which stays as it is.

        Args:
            wanted: the failures as their letters tell of them. Two may be of one request.
            is_trial: only look, and change nothing.
            takes_sent: also those that the journal does not know and that were sent back before.
        """
        ids = {one.request_id for one in wanted}
        outcomes: list[Redrivable | None] = []
        new_actions: dict[str, NewAction] = {}
        begun = self._session.transaction if is_trial else self._session.deed
        with begun() as connection:
            rows, now = read_rows(connection, self._group, ids, lock=True)
            actions = locked_actions_of(connection, self._group, ids, rows)
            for one in wanted:
                row, earlier = rows.get(one.request_id), actions.get(one.request_id, ())
                is_theirs = _is_theirs(one, row, earlier)
                refusal = _refusal_beside if is_theirs else _refusal
                why = refusal(one, row, now, earlier, takes_sent=takes_sent)
                if why is None and one.request_id in new_actions:
                    why = Redrivable.DOUBLE
                outcomes.append(why)
                if why is None:
                    generation = None if row is None or is_theirs else row.generation
                    new_actions[one.request_id] = NewAction(one.request_id, generation, reason)
            noted = () if is_trial else list(new_actions.values())
            note(connection, self._group, noted, ActionKind.DISCARD, by=by)
        return outcomes

    def undo_discard(
        self,
        request_ids: Collection[str],
        *,
        by: str,
        reason: str,
        is_beside: bool = False,
        seen: str | None = None,
    ) -> dict[str, DiscardVerdict]:
        """Undo discards, as long as nothing else has happened to their requests.

        Args:
            is_beside: those of failures in another system, whatever has happened in this group.
            seen: the stamp of the discard that is meant; None: whichever stands.
        """
        with self._session.deed() as connection:
            rows, _ = read_rows(connection, self._group, request_ids, lock=True)
            actions = locked_actions_of(connection, self._group, request_ids, rows)
            found = {
                name: can_be_undone_beside(actions.get(name, ()), seen=seen)
                if is_beside
                else can_be_undone(actions.get(name, ()), rows.get(name), seen=seen)
                for name in request_ids
            }
            new_actions = [
                NewAction(
                    name, rows[name].generation if name in rows and not is_beside else None, reason
                )
                for name, what in found.items()
                if what is DiscardVerdict.UNDONE
            ]
            note(connection, self._group, new_actions, ActionKind.UNDO, by=by)
        return found

    def look(self, request_id: str, *, by: str) -> None:
        """Note that a person looks at the value and headers of a request."""
        with self._session.deed() as connection:
            rows, _ = read_rows(connection, self._group, [request_id])
            generation = rows[request_id].generation if request_id in rows else None
            new_action = NewAction(request_id, generation, None)
            note(connection, self._group, [new_action], ActionKind.LOOK, by=by)

    def note_published(self, row: Row) -> None:
        """Note that Redis was told how a request stands.

        Raises:
            JournalUnavailable: a worker's sweep tells it once more.
        """
        told = Published(row.request_id, row.generation, row.state)
        with self._session.transaction() as connection:
            mark_published(connection, self._group, [told])


def _refusal(
    one: RedriveCandidate, row: Row | None, now: int, actions: Sequence[Action], *, takes_sent: bool
) -> Redrivable | None:
    if is_discarded(actions, row, of=one.generation):
        return Redrivable.DISCARDED
    if row is None:
        return Redrivable.SENT_BEFORE if is_sent_before(one, actions) and not takes_sent else None
    if row.payload_sha256 != one.payload_sha256:
        return Redrivable.PAYLOAD_MISMATCH
    if row.state != JournalState.FAILED:
        return NOT_FAILED[JournalState(row.state)]
    if one.generation not in (None, shown_generation(row)):
        return Redrivable.OLDER_FAILURE
    # A reopened request may run any moment: nobody may discard it until its deadline.
    return Redrivable.ON_ITS_WAY if row.resend and now < row.deadline_at else None


def _is_theirs(one: RedriveCandidate, row: Row | None, actions: Sequence[Action]) -> bool:
    """Whether a letter is of another system, and no row of this group tells of it."""
    if one.elsewhere_at is None:
        return False
    return is_beside(row, actions, redrive_id=one.redrive_id, failed_at=one.elsewhere_at)


def _refusal_beside(
    one: RedriveCandidate, row: Row | None, now: int, actions: Sequence[Action], *, takes_sent: bool
) -> Redrivable | None:
    if is_closed_beside(row, actions):
        return Redrivable.DISCARDED
    if row is None:
        return Redrivable.SENT_BEFORE if is_sent_before(one, actions) and not takes_sent else None
    if not has_open_failure(row, actions):
        return None
    is_on_its_way = row.resend and now < row.deadline_at
    return Redrivable.ON_ITS_WAY if is_on_its_way else Redrivable.OURS_OPEN


def reserved_words(code: str) -> str:
    """Return why a person may not give a reserved code."""
    return (
        f"{code} has a meaning of its own (docs: Statuses): choose another one, like NOT_CHARGED;"
        f" reserved are {', '.join(sorted(RESERVED_CODES))}"
    )


@lru_cache
def _resolve(dialect: str) -> ReturningUpdate[Any]:
    batch = RUNS.source(dialect)
    return (
        update_runs(batch, JournalState.IN_DOUBT.value)
        .values(
            state=bindparam("to_state", type_=Text()),
            code=bindparam("to_code", type_=Text()),
            message=bindparam("to_message", type_=Text()),
            result=bindparam("to_result", type_=Text()),
            resend=literal_column("0"),
            finished_at=now_ms(),
            published_at=null(),
        )
        .returning(*ROW_COLUMNS)
    )
