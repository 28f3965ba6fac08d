"""A run that Redis knows and the journal has lost: the new state of its row. Pure.

A status is told after its commit. Where Redis has a later run of a request than the journal, the
database has lost commits that it acknowledged. The journal's row must not win then: that later run
may have had its effect.
"""

from __future__ import annotations

from typing import NamedTuple

from consumer.journal.records import (
    END_LOST,
    FORGOTTEN,
    Claim,
    JournalState,
    Row,
    cleaned,
)
from feedback.status import DISOWNED

_HAPPENED = (JournalState.SUCCEEDED, JournalState.IN_DOUBT)
_PARK = "park"


class ToldRun(NamedTuple):
    """The latest run of a request that its client was told of.

    Args:
        claim: names the request, as its record or its row does, and says how it was declared.
        state: how it ended; CLAIMED where its end is not known.
        owner: whose run it is; with `DISOWNED` behind it where that worker has it no more.
        by: for SKIPPED: the request that succeeded in this one's stead.
        is_raised: it is the run that stood there, above a later one that left nothing.
    """

    claim: Claim
    generation: int
    state: JournalState
    owner: str
    code: str | None = None
    message: str | None = None
    result: str | None = None
    resend: bool = False
    by: str | None = None
    is_raised: bool = False

    @property
    def request_id(self) -> str:
        return self.claim.request_id

    @property
    def run(self) -> tuple[str, int]:
        """The run: (request_id, generation)."""
        return self.claim.request_id, self.generation

    @property
    def is_open(self) -> bool:
        """Whether another run may have followed it: it has no end, or was asked for again."""
        is_asked_again = self.state == JournalState.FAILED and self.code == END_LOST
        return self.state == JournalState.CLAIMED or is_asked_again

    def disowned(self) -> ToldRun:
        """Return the same run as one that its living worker has no more."""
        is_open = self.state == JournalState.CLAIMED
        return self._replace(owner=self.owner + DISOWNED) if is_open else self

    def pruned(self, message: str) -> ToldRun:
        """Return the same run as that of a request whose end the journal has pruned."""
        return self._replace(
            state=JournalState.IN_DOUBT,
            owner=self.owner.removesuffix(DISOWNED),
            code=FORGOTTEN,
            message=message,
            resend=False,
        )

    def cleaned(self) -> ToldRun:
        """Return the same run without any words that a database could refuse."""
        owner = cleaned(self.owner)
        return self._replace(owner=owner, code=None, message=None, result=None, by=None)


def catch_up_with(one: ToldRun, row: Row | None, *, owner_is_gone: bool = False) -> ToldRun | None:
    """Return the new values of the row; None where the journal has lost nothing of it.

    A run that succeeded or is in doubt by the journal is not replaced by a later run's failure: it
    is raised above that run, so that its client is told of it.

    Args:
        owner_is_gone: whether a claim that stands there may be overwritten; else its owner, or a
            sweep, goes on with it.
    """
    if row is None:
        return one
    is_same = (row.payload_sha256, row.topic) == (one.claim.payload_sha256, one.claim.topic)
    if not is_same or row.generation >= one.generation:
        return None
    if row.state == JournalState.CLAIMED and not owner_is_gone:
        return None
    one = _with_key(one, row)
    if row.state not in _HAPPENED or one.state in _HAPPENED:
        return one
    is_over = one.state != JournalState.CLAIMED
    # Above a run without an end both may have happened, but for one that leaves nothing so.
    is_raised = is_over or one.claim.effect_kind == "transactional"
    claim = one.claim._replace(
        effect_kind=row.effect_kind or one.claim.effect_kind,
        in_doubt=row.in_doubt,
        claimed_at=row.claimed_at if is_raised else one.claim.claimed_at,
    )
    return one._replace(
        claim=claim,
        generation=one.generation + is_over,
        state=JournalState(row.state),
        owner=row.owner,
        code=row.code,
        message=row.message,
        result=row.result,
        resend=row.resend,
        by=row.by,
        is_raised=is_raised,
    )


def _with_key(one: ToldRun, row: Row) -> ToldRun:
    """Return a told run whose key is none that the journal knows to be refused.

    With fewer voids than an earlier run it comes from another line of the database, or nobody told
    its key: the counterparty is not asked about it.
    """
    if one.claim.voids >= row.voids:
        return one
    return one._replace(claim=one.claim._replace(voids=row.voids, in_doubt=_PARK))
