"""The states of the requests behind dead letters, from the journal. The rule is pure."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import NamedTuple

from consumer.dlq.letter import Dialect, Letter
from consumer.journal.actions import Action
from consumer.journal.appended import AppendMark
from consumer.journal.lookup import Lookup
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive.other_system import is_beside, is_closed_beside
from consumer.journal.redrive.redrive_rule import is_discarded, shown_generation


class LetterState(StrEnum):
    """The state of a letter's request, seen from the letter.

    OPEN: it failed and nobody has acted, or it was sent back and no run began before its deadline.
    RUNNING: it was sent back and has not ended yet. UNSENT: a redrive has taken it, and may not
    have sent it: only its resume does. REPAIRED: it has succeeded, itself or its
    replacement. IN_DOUBT: a person must resolve it. EXPIRED: it was sent back too late. DISCARDED:
    a person has closed the case. OLDER: it was sent back and failed again, so a later letter stands
    for it. UNKNOWN: the journal has no row of it; or it is of another system, and the row tells of
    this group alone.
    """

    OPEN = "open"
    RUNNING = "running"
    UNSENT = "unsent"
    REPAIRED = "repaired"
    IN_DOUBT = "in_doubt"
    EXPIRED = "expired"
    DISCARDED = "discarded"
    OLDER = "older"
    UNKNOWN = "unknown"


# The states that may need a decision.
UNSETTLED = frozenset(
    {LetterState.OPEN, LetterState.UNSENT, LetterState.IN_DOUBT, LetterState.UNKNOWN}
)

_OF_STATE = {
    JournalState.CLAIMED: LetterState.RUNNING,
    JournalState.RETRYING: LetterState.RUNNING,
    JournalState.SUCCEEDED: LetterState.REPAIRED,
    JournalState.SKIPPED: LetterState.REPAIRED,
    JournalState.IN_DOUBT: LetterState.IN_DOUBT,
    JournalState.EXPIRED: LetterState.EXPIRED,
}


def state_of(
    letter: Letter,
    row: Row | None,
    actions: Sequence[Action],
    *,
    group: str,
    now: int,
    is_unsent: bool = False,
) -> LetterState:
    """Return the state of a letter's request.

    Args:
        group: whose row and actions these are.
        is_unsent: whether an unfinished redrive has it, and may not have sent it.
    """
    if is_theirs(letter, row, actions, group=group):
        if is_unsent:
            return LetterState.UNSENT
        is_closed = is_closed_beside(row, actions)
        return LetterState.DISCARDED if is_closed else LetterState.UNKNOWN
    # Other systems count deliveries.
    attempts = letter.failure.attempts if letter.dialect is Dialect.ONCEWARD else None
    if row is None and is_unsent:
        return LetterState.UNSENT
    if row is None:
        is_closed = is_discarded(actions, row, of=attempts)
        return LetterState.DISCARDED if is_closed else LetterState.UNKNOWN
    if row.state != JournalState.FAILED:
        return _OF_STATE[JournalState(row.state)]
    if attempts is not None and attempts < shown_generation(row):
        return LetterState.OLDER
    is_closed = is_discarded(actions, row)
    is_on_its_way = row.resend and now < row.deadline_at
    if is_unsent and (is_closed or is_on_its_way):
        return LetterState.UNSENT
    if is_on_its_way:
        return LetterState.RUNNING
    return LetterState.DISCARDED if is_closed else LetterState.OPEN


def is_theirs(letter: Letter, row: Row | None, actions: Sequence[Action], *, group: str) -> bool:
    """Whether a letter is of another system, and no row of this group tells of it."""
    return not letter.is_of(group) and is_beside(
        row, actions, redrive_id=letter.sent_by, failed_at=letter.failed_at
    )


class LetterStanding(NamedTuple):
    """The state of a letter's request, with the row that does not decide it.

    Args:
        ours: the state of this group's row, where the letter is of another system.
    """

    state: LetterState
    ours: str | None = None

    @property
    def is_open_here(self) -> bool:
        """Whether this group may have failed, and later requests may have done its work."""
        return self.state is LetterState.OPEN or self.ours == JournalState.FAILED


def standing_of(
    letter: Letter,
    row: Row | None,
    actions: Sequence[Action],
    *,
    group: str,
    now: int,
    is_unsent: bool = False,
) -> LetterStanding:
    """Return the state of a letter's request, and what this group's row says; see `state_of`."""
    state = state_of(letter, row, actions, group=group, now=now, is_unsent=is_unsent)
    is_apart = row is not None and is_theirs(letter, row, actions, group=group)
    return LetterStanding(state, row.state if row is not None and is_apart else None)


def ours_in_words(ours: str) -> str:
    """Return what this group's row says beside a letter of another system."""
    return f"this group: {ours}"


class LetterStates:
    """Asks the journal for the states of letters. Belongs to one thread."""

    def __init__(self, lookup: Lookup) -> None:
        self._lookup = lookup
        self._unsent: frozenset[str] | None = None

    def unsent(self) -> frozenset[str]:
        """Return the requests that unfinished redrives may not have sent, by the first look."""
        if self._unsent is None:
            unfinished = self._lookup.unfinished()
            self._unsent = frozenset(name for one in unfinished for name in one.requests)
        return self._unsent

    def append_mark(self) -> AppendMark:
        """See `Lookup`."""
        return self._lookup.append_mark()

    def changed_between(self, since: AppendMark, until: AppendMark) -> frozenset[str] | None:
        """See `Lookup`."""
        return self._lookup.changed_between(since, until)

    def of(self, letters: Sequence[Letter]) -> list[LetterStanding]:
        """Return the state of each."""
        unsent = self.unsent()
        ids, group = {one.request_id for one in letters}, self._lookup.group
        others = {one.request_id for one in letters if not one.is_of(group)}
        rows, now = self._lookup.rows(ids)
        ended = {name for name, row in rows.items() if row.state != JournalState.FAILED} - others
        actions = self._lookup.actions(ids - ended)
        return [
            standing_of(
                one,
                rows.get(one.request_id),
                actions.get(one.request_id, ()),
                group=group,
                now=now,
                is_unsent=one.request_id in unsent,
            )
            for one in letters
        ]
