"""The worker that has a request, and whether it lives. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from consumer.journal.lookup import LeaseRow
from consumer.journal.records import DISOWNED, JournalState, Row
from feedback.status import State
from feedback.statuses import Status

_HELD = frozenset({State.ACCEPTED, State.RUNNING, State.LOST})


@dataclass(frozen=True, slots=True)
class RequestHolder:
    """A worker that has a request.

    Attributes:
        lease: None where the journal has none, or was not asked.
        is_leased: whether its lease holds; None where the journal was not asked.
        beats: whether it has a heartbeat in Redis; None where that is not known.
        has_given_up: whether it says itself that the run is not its own any more.
    """

    worker_id: str
    lease: LeaseRow | None = None
    is_leased: bool | None = None
    beats: bool | None = None
    has_given_up: bool = False

    @property
    def lives(self) -> bool | None:
        """Whether it lives: peers go by its lease, clients by its heartbeat; None: not known."""
        return self.beats if self.is_leased is None else self.is_leased


def holder_of(row: Row | None, status: Status | None) -> RequestHolder | None:
    """Return the worker that has a request, as far as row and status tell; None: nobody has it."""
    if row is not None and row.state == JournalState.CLAIMED:
        name = row.owner.removesuffix(DISOWNED)
        return RequestHolder(name, has_given_up=name != row.owner)
    if status is None or status.worker is None or status.state not in _HELD:
        return None
    # A status behind the row tells of a run that has ended, unless it was sent again since.
    is_sent_again = row is not None and row.attempt < status.attempt
    is_news = row is None or (row.state == JournalState.FAILED and is_sent_again)
    return RequestHolder(status.worker) if is_news else None
