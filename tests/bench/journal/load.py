"""The load: requests that are claimed, ended and confirmed, some turns after one another."""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from consumer.journal import Journal, Work
from consumer.journal.records import Claim, Finish, JournalState, Published
from feedback.clock import epoch_ms, monotonic_s
from feedback.records.envelope import new_request_id

BATCH = 256
# Turns between a claim and its end, and between that and the word that Redis was told.
LAG = 2
PARTITIONS = 8
DEADLINE_MS = 3_600_000
RESULT = '{"charged": true, "amount": 4999}'


@dataclass(frozen=True, slots=True)
class Turns:
    """What was done.

    Attributes:
        seconds: of all turns.
        turn_ms: of each turn: one transaction with the claims, endings and statuses of a batch.
    """

    requests: int
    seconds: float
    turn_ms: Sequence[float]


def run(journal: Journal, requests: int) -> Turns:
    """Take so many requests through the journal, in whole batches.

    Raises:
        JournalUnavailable: the database is away.
    """
    numbers = itertools.count()
    batches = -(-requests // BATCH)
    running: deque[list[Claim]] = deque()
    ended: deque[list[Claim]] = deque()
    turn_ms: list[float] = []
    began_s = monotonic_s()
    for turn in range(batches + 2 * LAG):
        claims = [_claim(next(numbers)) for _ in range(BATCH)] if turn < batches else []
        # Empty batches keep the distance at the beginning and the end.
        running.append(claims)
        ended.append(running.popleft() if turn >= LAG else [])
        told = ended.popleft() if turn >= LAG else []
        turn_began_s = monotonic_s()
        journal.apply(
            Work(
                claims=claims,
                finishes=[_finish(one) for one in ended[-1]],
                published=[Published(one.request_id, 1, JournalState.SUCCEEDED) for one in told],
            ),
        )
        turn_ms.append((monotonic_s() - turn_began_s) * 1000)
    return Turns(batches * BATCH, monotonic_s() - began_s, turn_ms)


def _claim(number: int) -> Claim:
    return Claim(
        request_id=new_request_id(),
        topic="payments",
        partition=number % PARTITIONS,
        offset=number // PARTITIONS,
        message_key=b"customer-%d" % (number % 1000),
        payload_sha256=hashlib.sha256(b"%d" % number).hexdigest(),
        attempt=1,
        deadline_at=epoch_ms() + DEADLINE_MS,
        effect_kind="marked",
        in_doubt="park",
    )


def _finish(claim: Claim) -> Finish:
    return Finish(
        claim.request_id, 1, JournalState.SUCCEEDED.value, None, None, RESULT, resend=False
    )
