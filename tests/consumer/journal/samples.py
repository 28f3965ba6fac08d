"""Claims, finishes and rows as the tests need them."""

from __future__ import annotations

import itertools

from consumer.journal import (
    WORKER_DIED,
    Claim,
    DeadEnd,
    Finish,
    Journal,
    JournalState,
    Refusal,
    Row,
    Takeover,
    TakeoverKind,
    VerdictKind,
)
from consumer.journal.records import Applied

FAR = 4_102_444_800_000  # the year 2100, in epoch ms
PAST = 1
SHA = "a" * 64
OTHER_SHA = "b" * 64

_numbers = itertools.count(1)


def new_id() -> str:
    """Return a request id that no other test of this process uses."""
    return f"request-{next(_numbers):06d}"


def claim(
    request_id: str,
    *,
    attempt: int = 1,
    sha: str = SHA,
    deadline_at: int = FAR,
    effect_kind: str = "marked",
    key: bytes | None = b"key",
    offset: int = 17,
    wakes: int = 0,
    in_doubt: str | None = "park",
) -> Claim:
    """Return a claim on partition 3 of topic `payments`."""
    return Claim(
        request_id=request_id,
        topic="payments",
        partition=3,
        offset=offset,
        message_key=key,
        payload_sha256=sha,
        attempt=attempt,
        deadline_at=deadline_at,
        effect_kind=effect_kind,
        wakes=wakes,
        in_doubt=in_doubt,
    )


def takeover(
    request_id: str,
    generation: int = 1,
    kind: TakeoverKind = TakeoverKind.EXCLUDED,
    because: str = "CHILD_DIED",
    effect_kind: str | None = None,
    in_doubt: str | None = None,
    *,
    error: str | None = None,
) -> Takeover:
    """Return a takeover of a run of the request of `claim`."""
    return Takeover(
        request_id=request_id,
        topic="payments",
        payload_sha256=SHA,
        generation=generation,
        kind=kind,
        because=because,
        effect_kind=effect_kind,
        in_doubt=in_doubt,
        error=error,
    )


def finish(
    request_id: str,
    generation: int = 1,
    state: str = JournalState.SUCCEEDED,
    *,
    code: str | None = None,
    message: str | None = None,
    result: str | None = None,
    resend: bool = False,
    delay_ms: int | None = None,
    resend_if_late: bool = False,
    claimed_at: int | None = None,
    of: Claim | None = None,
) -> Finish:
    """Return a finish of a run.

    Args:
        of: its claim; with `claimed_at` alone: one as `claim` makes it.
    """
    if of is None and claimed_at is not None:
        of = claim(request_id)
    return Finish(
        request_id=request_id,
        generation=generation,
        state=state,
        code=code,
        message=message,
        result=result,
        resend=resend,
        delay_ms=delay_ms,
        resend_if_late=resend_if_late,
        claim=None if of is None else of._replace(claimed_at=claimed_at),
    )


def refusal(
    request_id: str,
    *,
    message: str = "no id",
    deadline_at: int = FAR,
    attempt: int = 1,
    payload_sha256: str = SHA,
    reopens: int | None = None,
) -> Refusal:
    """Return a refusal of a malformed record."""
    return Refusal(
        request_id=request_id,
        topic="payments",
        partition=3,
        offset=2**40,
        message_key=b"\x00\xff",
        payload_sha256=payload_sha256,
        attempt=attempt,
        deadline_at=deadline_at,
        code="INVALID_MESSAGE",
        message=message,
        reopens=reopens,
    )


def row(request_id: str = "a", **changes: object) -> Row:
    """Return a claimed row of worker `me`, with changes."""
    values: dict[str, object] = dict.fromkeys(Row._fields)
    values |= {
        "request_id": request_id,
        "topic": "payments",
        "partition": 3,
        "offset": 17,
        "payload_sha256": SHA,
        "attempt": 1,
        "generation": 1,
        "effect_kind": "marked",
        "deadline_at": FAR,
        "state": JournalState.CLAIMED,
        "owner": "me",
        "resend": False,
        "voids": 0,
    }
    return Row(**(values | changes))  # type: ignore[arg-type]


def kinds(applied: Applied) -> list[VerdictKind]:
    """Return what the claims of a batch were answered with."""
    return [verdict.kind for verdict in applied.verdicts]


def row_of(applied: Applied) -> Row:
    """Return the row of a batch's only verdict."""
    (verdict,) = applied.verdicts
    assert verdict.row is not None
    return verdict.row


def park_dead(journal: Journal, limit: int) -> list[Row]:
    """Put the claims of dead workers in doubt, as a sweep does by the policy `park`."""
    dead = journal.dead_claims(["payments"], limit)
    return journal.end_dead_claims(
        [
            DeadEnd(row.request_id, row.generation, JournalState.IN_DOUBT, WORKER_DIED, "it died")
            for row in dead
        ]
    )


def index_of_open(name: str, dialect: str) -> str:
    """Return the name of an index of the open requests.

    >>> index_of_open("dead", "sqlite")
    'onceward_request_dead'
    """
    return f"onceward_{'request' if dialect == 'sqlite' else 'open'}_{name}"
