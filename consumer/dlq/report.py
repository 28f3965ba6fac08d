"""All that is known of one request. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from consumer.dlq.letter import Letter
from consumer.dlq.letter_state import LetterState, is_theirs
from consumer.handlers.request import idempotency_key
from consumer.journal.actions import Action
from consumer.journal.lookup import LeaseRow, PastRun
from consumer.journal.pauses import PauseRow
from consumer.journal.records import JournalState, Row
from consumer.journal.redrive.other_system import discard_beside, has_open_failure
from consumer.journal.redrive.redrive_rule import Redrivable, standing_discard
from consumer.journal.redrive.reopening import UnfinishedRedrive
from feedback.records.stored_payload import StoredPayload
from feedback.status import DISOWNED, FINAL, State
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
    name = status.worker.removesuffix(DISOWNED)
    return RequestHolder(name, has_given_up=name != status.worker) if is_news else None


MOST_KEYS = 10


@dataclass(frozen=True, slots=True)
class RequestReport:
    """All that is known of one request.

    Attributes:
        group: the consumer group that was asked.
        letters: the last ones, the newest of them last; each once.
        state: the state of the last letter; None without one.
        row: None where the journal has nothing, or was not asked.
        runs: those before the row's.
        payload: for a resend; None once it has ended.
        verdict: whether its last letter could be sent back; None without one.
        unsent_by: the redrive that has it and may not have sent it; its owner is a process at work.
        dlqs: the dead letter topics that were named to look in.
    """

    request_id: str
    letters: list[Letter]
    state: LetterState | None
    row: Row | None
    runs: list[PastRun]
    actions: list[Action]
    status: Status | None
    away: str | None
    letters_away: str | None = None
    group: str = ""
    payload: StoredPayload | None = None
    holder: RequestHolder | None = None
    pause: PauseRow | None = None
    verdict: Redrivable | None = None
    unsent_by: UnfinishedRedrive | None = None
    dlqs: Collection[str] = ()
    now: int = 0

    @property
    def is_known(self) -> bool:
        """Whether anything is known of it."""
        has_status = self.status is not None and self.status.state is not State.UNKNOWN
        is_kept = self.payload is not None or bool(self.runs) or bool(self.actions)
        return bool(self.letters) or self.row is not None or has_status or is_kept

    @property
    def topic(self) -> str | None:
        """The topic that it was sent to, as far as that is known."""
        if self.row is not None:
            return self.row.topic
        if self.letters:
            return self.letters[-1].home
        if self.payload is not None:
            return self.payload.topic
        return None if self.status is None else self.status.topic

    @property
    def key(self) -> bytes | None:
        """Its record's key."""
        if self.row is not None:
            return self.row.message_key
        if self.letters:
            return self.letters[-1].key
        return None if self.payload is None else self.payload.key

    @property
    def has_value(self) -> bool:
        """Whether its value is known: that of the letter, or of the payload for a resend."""
        return bool(self.letters) or self.payload is not None

    @property
    def value(self) -> bytes | None:
        """Its value; None is one that is null, or not known."""
        if self.letters:
            return self.letters[-1].value
        return None if self.payload is None else self.payload.value

    @property
    def idempotency_keys(self) -> list[str]:
        """The keys that its counterparty saw, the last of them in force; empty before a run."""
        voids = self._voids
        if voids is None:
            return []
        # Redis' number is anybody's.
        numbers = range(max(0, voids + 1 - MOST_KEYS), voids + 1)
        return [idempotency_key(self.group, self.request_id, one) for one in numbers]

    @property
    def _voids(self) -> int | None:
        if self.row is not None:
            # Of one that was forgotten nobody knows how many keys it had: the first, most likely.
            has_run = self.row.claimed_at is not None or self.row.is_forgotten
            return self.row.voids if has_run else None
        if self.status is None or not self.status.generation:
            return None
        return self.status.voids or 0

    @property
    def is_theirs(self) -> bool:
        """Whether its last letter is of another system, and no row of this group tells of it."""
        if not self.letters:
            return False
        return is_theirs(self.letters[-1], self.row, self.actions, group=self.group)

    @property
    def ours(self) -> str | None:
        """The state of the row, where that does not decide the state of the last letter."""
        return self.row.state if self.row is not None and self.is_theirs else None

    @property
    def is_open_here(self) -> bool:
        """Whether this group has failed, and nobody has closed that."""
        return has_open_failure(self.row, self.actions)

    @property
    def discard(self) -> Action | None:
        """The discard by which the case of this group's failure is closed."""
        return standing_discard(self.actions, self.row)

    @property
    def discard_of_letter(self) -> Action | None:
        """The discard by which the case of its last letter is closed."""
        if not self.is_theirs:
            return self.discard
        is_closed = self.state is LetterState.DISCARDED
        return discard_beside(self.actions) if is_closed else None

    @property
    def is_on_its_way(self) -> bool:
        """Whether it has failed, and may run again before its deadline."""
        row = self.row
        is_reopened = row is not None and row.state == JournalState.FAILED and row.resend
        return is_reopened and row is not None and self.now < row.deadline_at

    @property
    def has_ended(self) -> bool:
        """Whether no run of it follows by itself."""
        if self.row is not None:
            is_open = self.row.state in (JournalState.CLAIMED, JournalState.RETRYING)
            return not (is_open or self.is_on_its_way)
        return self.status is not None and self.status.state in FINAL
