"""The arguments and results of the journal, as frozen values.

All times are epoch milliseconds of the database's clock, but for deadlines, which the client set.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from feedback.records.envelope import FirstPlace

# The id of its request, and its generation.
Run = tuple[str, int]

RESULT_REFUSED = "RESULT_REFUSED"
DEADLINE_OVER = "DEADLINE_OVER"
WORKER_DIED = "WORKER_DIED"
# The code of a doubt: the record was read again and its row may have been pruned.
FORGOTTEN = "FORGOTTEN"
# The worker lives, and neither it nor the journal says how its run ended.
END_LOST = "END_LOST"
# Its claim was lost and made anew by another worker while it went on: either run may have acted.
CLAIMED_TWICE = "CLAIMED_TWICE"
# The codes of a record that was refused.
_REFUSALS = ("INVALID_MESSAGE", "PAYLOAD_MISMATCH")


def over_message(seconds: int | str) -> str:
    """Return the message of a request whose deadline was over by that when it was read."""
    return f"its deadline had been over for {seconds} s when it was to begin"


class JournalState(StrEnum):
    """The states of a request's row (docs: Tables)."""

    CLAIMED = "CLAIMED"
    RETRYING = "RETRYING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    IN_DOUBT = "IN_DOUBT"
    EXPIRED = "EXPIRED"
    SKIPPED = "SKIPPED"


class Claim(NamedTuple):
    """A wish to run a request that was delivered.

    Args:
        message_key: the record's key; None is not an empty one.
        payload_sha256: hash of key and value, in hex.
        deadline_at: epoch ms; no run is granted at or after it.
        effect_kind: `transactional`, `external` or `marked`; for `external` the claim itself says
            that an effect may have happened.
        wakes: of a retry: the generation of the run that it is to follow. It makes no row and
            reopens none: without its RETRYING row there is nothing to wake up.
        order_key: names the requests that run one after the other; None: it waits for none.
        begins_at: generation of the run that a first claim allows.
        reopens: the highest generation whose failure it may reopen; None: any.
        sent_at: of a record that names no deadline: epoch ms of its own time, -1 without one.
        first: of a resend: the place of the first record that it repeats, in the same topic; None
            where it names none.
        in_doubt: who decides about this run where its effect may have happened: the policy that
            its handler declares.
        voids: how often a run of it was declared void before, where this run is known already.
        claimed_at: epoch ms of the claim, by the database's clock, where this run is known already.
    """

    request_id: str
    topic: str
    partition: int
    offset: int
    message_key: bytes | None
    payload_sha256: str
    attempt: int
    deadline_at: int
    effect_kind: str
    wakes: int = 0
    order_key: str | None = None
    begins_at: int = 1
    reopens: int | None = None
    sent_at: int | None = None
    first: FirstPlace | None = None
    in_doubt: str | None = None
    voids: int = 0
    claimed_at: int | None = None

    @property
    def names_no_deadline(self) -> bool:
        """Whether its record, or the first that it repeats, may get a new deadline by a reading.

        Any other record is forgotten after its deadline alone, past which no claim is granted.
        """
        return self.sent_at is not None or (
            self.first is not None and self.first.sent_at is not None
        )


class Skip(NamedTuple):
    """A request that is to end without a run, since another one has succeeded in its stead.

    Args:
        claim: the wish that it would have been.
        by_generation: of the run that has.
    """

    claim: Claim
    by: str
    by_generation: int

    @property
    def request_id(self) -> str:
        return self.claim.request_id


@dataclass(frozen=True, slots=True)
class Refusal:
    """A record that is refused and never runs: it leaves a FAILED row under its coordinates.

    Args:
        request_id: the id made of the record's coordinates, not the one that it claims to have.
        deadline_at: epoch ms, from which on pruning may forget the refusal.
        code: `INVALID_MESSAGE` or `PAYLOAD_MISMATCH`.
        reopens: as of a claim.
    """

    request_id: str
    topic: str
    partition: int
    offset: int
    message_key: bytes | None
    payload_sha256: str
    attempt: int
    deadline_at: int
    code: str
    message: str
    reopens: int | None = None

    def cleaned(self) -> Refusal:
        """Return the same refusal with nothing in it that a database could refuse."""
        return replace(
            self,
            message=cleaned(self.message),
            attempt=_within_64_bits(self.attempt),
            deadline_at=_within_64_bits(self.deadline_at),
        )


class Finish(NamedTuple):
    """How a run ended.

    Args:
        state: the new state of the request; never CLAIMED.
        resend: whether a resend of a FAILED request may help.
        delay_ms: for RETRYING: until the next run, by the database's clock.
        resend_if_late: for RETRYING: whether a resend may help where the request is in doubt by
            now, and waits for no next run any more.
        claim: of its run, as it was granted: another worker may have claimed the same generation
            anew, or another request its id; None where it is not known.
    """

    request_id: str
    generation: int
    state: str
    code: str | None
    message: str | None
    result: str | None
    resend: bool
    delay_ms: int | None = None
    resend_if_late: bool = False
    claim: Claim | None = None

    @property
    def run(self) -> Run:
        """The run that ended."""
        return self.request_id, self.generation

    @property
    def claimed_at(self) -> int | None:
        """When its run was claimed, in epoch ms; None where that is not known."""
        return None if self.claim is None else self.claim.claimed_at

    def cleaned(self) -> Finish:
        """Return the same ending without its data: the database refused it, the request ends."""
        message = None if self.message is None else cleaned(self.message)
        return self._replace(code=RESULT_REFUSED, message=message, result=None)


class OwnRun(NamedTuple):
    """A run of a worker as that worker knows it; the database may have lost it.

    Args:
        entered: whether a marked run was let into its effect.
        finish: how it ended; None while it runs.
        is_begun: whether a child may have begun it; else it was granted, and none took it.
    """

    claim: Claim
    generation: int
    entered: bool
    finish: Finish | None
    is_begun: bool = True

    @property
    def request_id(self) -> str:
        return self.claim.request_id

    @property
    def run(self) -> tuple[str, int]:
        """The run: (request_id, generation)."""
        return self.claim.request_id, self.generation

    @property
    def may_be_followed(self) -> bool:
        """Whether it has ended in a way that another run may follow."""
        end = self.finish
        return end is not None and end.state not in (JournalState.SUCCEEDED, JournalState.SKIPPED)

    def in_doubt(self, code: str, message: str) -> OwnRun:
        """Return the same run, ended in doubt."""
        end = Finish(
            request_id=self.request_id,
            generation=self.generation,
            state=JournalState.IN_DOUBT.value,
            code=code,
            message=message,
            result=None,
            resend=False,
            claim=self.claim,
        )
        return self._replace(finish=end)

    def cleaned(self) -> OwnRun:
        """Return the same run without a result that a database could refuse."""
        return self._replace(finish=None if self.finish is None else self.finish.cleaned())


@dataclass(frozen=True, slots=True)
class EffectMark:
    """A run that is about to enter its effect.

    Attributes:
        only_in_time: whether it is refused past the deadline. A peer may have ended it as EXPIRED
            then, and the database have lost that, where the lease was over since the run began.
    """

    request_id: str
    generation: int
    only_in_time: bool = False


class TakeoverKind(StrEnum):
    """Why a run may follow one that has no end (docs: Effects and doubt).

    EXCLUDED: the journal says that its effect did not begin. SAME_KEY: it may have, and the
    counterparty is idempotent. VOIDED: the counterparty refuses the old key from now on. ASK: no
    new run; the doubtful one becomes ours, so that we alone ask the counterparty about it.
    """

    EXCLUDED = "EXCLUDED"
    SAME_KEY = "SAME_KEY"
    VOIDED = "VOIDED"
    ASK = "ASK"


class Takeover(NamedTuple):
    """The wish to go on with a request whose run has no end: our own, or that of a dead worker.

    Args:
        topic: of the request, as in its claim; with `payload_sha256` it says which one has the id.
        generation: of the run that has no end.
        because: a stable code like `CHILD_DIED`; it becomes that run's outcome in the history.
        effect_kind: of the run that follows; its handler may have been declared anew since. None:
            as before.
        in_doubt: its policy; None: as before.
        error: the text of the error that the run ended with; None where it died.
    """

    request_id: str
    topic: str
    payload_sha256: str
    generation: int
    kind: TakeoverKind
    because: str
    effect_kind: str | None = None
    in_doubt: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Published:
    """A state of a request that Redis confirmed."""

    request_id: str
    generation: int
    state: str


class Row(NamedTuple):
    """A request as the journal has it; the fields are the columns of `onceward_request`.

    A tuple and not a dataclass: one is made for every claim. A frozen dataclass of 24 fields took 8
    us, a fifth of the journal's cost of a request.
    """

    request_id: str
    topic: str
    partition: int
    offset: int
    message_key: bytes | None
    payload_sha256: str
    attempt: int
    generation: int
    effect_kind: str | None
    effect_at: int | None
    deadline_at: int
    state: str
    owner: str
    claimed_at: int | None
    due_at: int | None
    finished_at: int | None
    code: str | None
    message: str | None
    result: str | None
    resend: bool
    by: str | None
    published_at: int | None
    dead_letter_at: int | None
    voids: int
    in_doubt: str | None = None

    @property
    def is_unclaimed_end(self) -> bool:
        """Whether its request ended and no claim of it is known."""
        states = (JournalState.FAILED, JournalState.EXPIRED, JournalState.SKIPPED)
        return self.claimed_at is None and self.state in states

    @property
    def knows_of_no_claim(self) -> bool:
        """Whether it was ended by a worker that found no claim: nothing came of it, by the journal.

        A failure is that of a refusal then. Any other was a doubt about a record that was read
        again, and a person has said how it ended: that stays.
        """
        is_ended = self.state != JournalState.FAILED or self.code in _REFUSALS
        return self.is_unclaimed_end and is_ended

    @property
    def is_forgotten(self) -> bool:
        """Whether it stands for a record that was read again and may have been pruned."""
        return self.state == JournalState.IN_DOUBT and self.code == FORGOTTEN


class RetriedRuns(NamedTuple):
    """The runs of a request's attempt that failed and were followed by another one, as declared.

    Args:
        first_failed_at: epoch ms at which the first of them failed.
    """

    runs: int = 0
    first_failed_at: int = 0


NEVER_RETRIED = RetriedRuns()


class OverdueRetry(NamedTuple):
    """A request whose next run was due a while ago.

    Args:
        is_too_late: its deadline is over: there is no next run.
    """

    row: Row
    retried: RetriedRuns
    is_too_late: bool
    late_ms: int


class FinishKind(StrEnum):
    WRITTEN = "WRITTEN"
    ALREADY = "ALREADY"  # it is mine and stands there: an earlier try of unknown outcome wrote it
    STALE = "STALE"  # the request went on without this run: nothing was written
    LOST = "LOST"  # the database has lost the claim of this run: nothing was written


@dataclass(frozen=True, slots=True)
class FinishResult:
    """The result of a finish.

    Args:
        due_at: when the state is RETRYING: epoch ms of the next run.
        resolution: the end that was written in place of the one asked for, since it resolved a
            doubt, or is one about two runs.
    """

    kind: FinishKind
    row: Row | None = None
    due_at: int | None = None
    resolution: Finish | None = None


class TakeoverResultKind(StrEnum):
    GRANTED = "GRANTED"
    MINE = "MINE"  # granted by an earlier try of unknown outcome
    ENDED = "ENDED"  # no further run is allowed: the row says how the request has ended
    DOUBTFUL = "DOUBTFUL"  # its effect may have happened after all: the policy decides
    STALE = "STALE"  # the request went on without us: nothing was written


@dataclass(frozen=True, slots=True)
class TakeoverResult:
    """The result of a takeover.

    Args:
        retried: if it is ours: the number of earlier runs that failed as declared.
    """

    kind: TakeoverResultKind
    row: Row | None
    retried: RetriedRuns = NEVER_RETRIED


@dataclass(frozen=True, slots=True)
class DeadEnd:
    """How a sweep ends the claim of a dead worker.

    Args:
        generation: of the claim.
        state: IN_DOUBT, or as a client was told, where the database has lost that.
        told_generation: of the run that a client was told of, which the database may have lost;
            None: the claim's.
        voids: how many runs before the told one were declared void; None: as before the claim.
        later: the claim of the told run, where that is a later one than this; the history keeps
            this one then.
    """

    request_id: str
    generation: int
    state: JournalState
    code: str | None
    message: str | None
    result: str | None = None
    resend: bool = False
    told_generation: int | None = None
    voids: int | None = None
    later: Claim | None = None


class KeyHolder(NamedTuple):
    """An earlier request of the same key, which goes first.

    Args:
        is_running: whether it runs; else it waits for its next run.
        due_in_ms: until that; 0 when it runs.
    """

    is_running: bool
    due_in_ms: int
    seen_at: int


class VerdictKind(StrEnum):
    """The verdict on a claim (docs: How it works)."""

    RUN = "RUN"
    ANSWERED = "ANSWERED"
    RUNNING = "RUNNING"
    RETRYING = "RETRYING"
    HELD = "HELD"
    MISMATCH = "MISMATCH"
    IN_DOUBT = "IN_DOUBT"
    EXPIRED = "EXPIRED"
    REFUSED = "REFUSED"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """The answer to one claim.

    Args:
        row: the request as it stands now; None when REFUSED or HELD, or when a retry finds none.
        reason: why, in a few words, without data of the request.
        retried: if it may run: the number of earlier runs that failed as declared.
        due_in_ms: if it is HELD: the time until the next run of the request it waits for; 0 while
            that runs.
    """

    kind: VerdictKind
    claim: Claim
    row: Row | None
    reason: str
    retried: RetriedRuns = NEVER_RETRIED
    due_in_ms: int = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """The results of one batch.

    Args:
        verdicts: one for each claim, in the order of the claims.
        effects: (request_id, generation) of the runs that may enter their effect.
        finished: the result of each finish, by (request_id, generation).
        refusals: the rows of the refusals, in their order.
        takeovers: the result of each takeover, by (request_id, generation) of the run without an
            end.
        skipped: the rows of requests that were skipped for another, or had expired before that.
        restored: the rows of own runs that the database had lost, as they are written again.
    """

    verdicts: tuple[ClaimVerdict, ...]
    effects: frozenset[tuple[str, int]]
    finished: Mapping[tuple[str, int], FinishResult]
    refusals: tuple[Row, ...]
    takeovers: Mapping[tuple[str, int], TakeoverResult] = field(default_factory=dict)
    skipped: tuple[Row, ...] = ()
    restored: tuple[Row, ...] = ()


def cleaned(text: str) -> str:
    """Return text that every database takes: no NUL, no half of a surrogate pair.

    >>> cleaned("a" + chr(0) + "b")
    'a\\ufffdb'
    """
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def _within_64_bits(number: int) -> int:
    return max(0, min(number, 2**63 - 1))
