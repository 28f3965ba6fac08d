"""How a claim of no living worker ends, by the journal and by the status in Redis. Pure.

The journal is the truth. But a database may lose commits that it acknowledged; the status that was
written after such a commit is then its only trace.
"""

from __future__ import annotations

import json
from dataclasses import replace

from consumer.handlers.declaration import EffectKind, InDoubtPolicy
from consumer.journal import WORKER_DIED, Claim, DeadEnd, JournalState, Row
from consumer.journal.claims.takeover_rule import effect_excluded
from consumer.journal.records import DEADLINE_OVER, END_LOST, cleaned
from consumer.loop.mapping import claim_of_row
from feedback import status
from feedback.status import DISOWNED
from feedback.statuses import Status

PAYLOAD_GONE = "PAYLOAD_GONE"
# No declaration says how it goes on.
NO_HANDLER = "NO_HANDLER"

_IN_DOUBT = {
    WORKER_DIED: "the worker died during the run; whether the effect happened is not known",
    END_LOST: "the database has lost how the run ended; whether the effect happened is not known",
}
_UNHANDLED = "no worker has a handler for its topic; whether the effect happened is not known"
_GONE = "the worker died during the run; its payload is gone, so it cannot run again"
_NEVER_CLAIMED = (
    "its client was told {} before it was claimed, which the database has lost; whether the effect"
    " of this run happened is not known"
)
# The values of the journal's column.
_MOST_VOIDS = 2**31
_ENDS = frozenset(
    state.value
    for state in (
        JournalState.SUCCEEDED,
        JournalState.FAILED,
        JournalState.IN_DOUBT,
        JournalState.EXPIRED,
        JournalState.SKIPPED,
    )
)


def cause(row: Row) -> str:
    """Return why nobody holds a claim."""
    return END_LOST if row.owner.endswith(DISOWNED) else WORKER_DIED


def parked(row: Row) -> DeadEnd:
    """Return the end of a claim whose effect may have happened: a person decides."""
    code = cause(row)
    return _in_doubt(row, code, _IN_DOUBT[code])


def without_payload(row: Row) -> DeadEnd:
    """Return the end of a claim that was to go on and has no payload any more."""
    return _in_doubt(row, PAYLOAD_GONE, _GONE)


def without_handler(row: Row, told: Status | None = None) -> DeadEnd:
    """Return the end of a claim that nobody has a handler for, after its deadline."""
    if effect_excluded(row) and not is_behind(row, told):
        why = f"its run left nothing, and no worker has a handler for {row.topic} any more"
        return DeadEnd(row.request_id, row.generation, JournalState.EXPIRED, DEADLINE_OVER, why)
    # Where the database has lost later runs it is about the latest: a client that was told of that
    # one hears of no earlier one any more.
    doubt = _in_doubt(row, NO_HANDLER, _UNHANDLED)
    if told is None or not is_behind(row, told):
        return doubt
    return replace(
        doubt,
        told_generation=told.generation,
        voids=told_voids(told),
        later=told_claim(claim_of_row(row), told),
    )


def _in_doubt(row: Row, code: str, why: str) -> DeadEnd:
    return DeadEnd(row.request_id, row.generation, JournalState.IN_DOUBT, code, why)


def told_end(row: Row, told: Status | None) -> DeadEnd | None:
    """Return the end that a client was told of; None without one.

    A final status is written after its finish was committed, so the database has lost that. Of a
    transactional run it has lost the effect as well: that one runs again.

    Args:
        row: a claim that nobody holds.
        told: the status of its request; None when it cannot be read.
    """
    if told is None or told.state.value not in _ENDS or not _is_of(row, told):
        return None
    is_of_claim = told.generation == row.generation
    if is_of_claim and was_never_claimed(told.state, told.claimed_at) and not effect_excluded(row):
        return _in_doubt(row, END_LOST, why_doubted(told.state))
    later = told_claim(claim_of_row(row), told) if is_behind(row, told) else None
    effect_kind = row.effect_kind if later is None else later.effect_kind
    if effect_kind == EffectKind.TRANSACTIONAL and told.state is status.State.SUCCEEDED:
        return None
    return DeadEnd(
        row.request_id,
        row.generation,
        JournalState(told.state.value),
        storable_text(told.code),
        storable_text(told.message),
        result=result_text(told.result),
        resend=told.resend,
        told_generation=told.generation,
        voids=None if later is None else told_voids(told),
        later=later,
    )


def was_never_claimed(state: str, claimed_at: int | None) -> bool:
    """Whether an end that a client was told of is that of no run: it says nothing of one that was
    claimed since the database has lost it. A status of an older worker may say so as well."""
    return state in (status.State.EXPIRED, status.State.SKIPPED) and claimed_at is None


def why_doubted(state: str) -> str:
    """Return why a run is in doubt whose client was told that it was never claimed."""
    return _NEVER_CLAIMED.format(state)


def is_behind(row: Row, told: Status | None) -> bool:
    """Whether a client was told of a later run, which may have had its effect."""
    return told is not None and _is_of(row, told) and told.generation > row.generation


def is_about(told: Status, *, topic: str, sha256: str) -> bool:
    """Whether a status is of this request.

    An id may have been another topic's request, which the journal has pruned or lost.

    Args:
        sha256: of the payload, in hex digits.
    """
    return told.topic in (None, topic) and told.payload_sha256 == sha256


def _is_of(row: Row, told: Status) -> bool:
    is_same = is_about(told, topic=row.topic, sha256=row.payload_sha256)
    return is_same and told.generation >= row.generation


def told_claim(claim: Claim, told: Status) -> Claim:
    """Return the claim of the run that a client was told of, as that run was declared.

    Its handler may have been declared anew since. So is its key; without that field, a person
    decides: the counterparty must not be asked about another run's key, nor be given it.

    Args:
        claim: of the same request.
    """
    voids = told_voids(told)
    policy = InDoubtPolicy.PARK if voids is None else storable_text(told.in_doubt)
    return claim._replace(
        effect_kind=told_kind(told),
        in_doubt=policy or InDoubtPolicy.PARK,
        voids=claim.voids if voids is None else voids,
        claimed_at=told.claimed_at,
    )


def told_kind(told: Status) -> EffectKind:
    """Return how the handler of a run was declared that a client was told of.

    A status of an older worker does not name it: then its effect may have happened.
    """
    return next((kind for kind in EffectKind if kind == told.effect_kind), EffectKind.EXTERNAL)


def told_voids(told: Status) -> int | None:
    """Return how many runs before the told one were void: its key derives from that.

    None where nobody can say: an older worker told it. Each void makes a generation.
    """
    if told.generation <= 1:
        return 0
    is_sound = told.voids is not None and 0 <= told.voids < min(told.generation, _MOST_VOIDS)
    return told.voids if is_sound else None


def storable_text(text: str | None) -> str | None:
    """Return a status without characters that a database refuses."""
    return None if text is None else cleaned(text)


def result_text(result: object) -> str | None:
    """Return the result that a client was told of as the journal keeps it, in JSON."""
    return None if result is None else json.dumps(result, separators=(",", ":"))
