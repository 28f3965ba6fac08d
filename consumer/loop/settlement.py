"""How a run ended, and so how its row changes: one frozen value, made once. Pure.

A settlement says which of four things the next transaction of the journal does:

| `finish` | `follows` | the journal |
|---|---|---|
| an end | | writes the end; where `is_committed`, the child has written it already |
| | a takeover | is asked for another run, or lets the counterparty be asked |
| | | is asked for the same claim again: the run had not begun |

Effects follow when it is written (`follow_up`): clients are told, and features hear the settlement
as the journal has it (`written`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

from consumer.handlers.declaration import EffectKind
from consumer.handlers.delivery import Delivery
from consumer.journal import Claim, Finish, FinishKind, FinishResult, Run, Skip
from consumer.loop import mapping
from consumer.loop.continuation import (
    PAUSE_AFTER_ERROR_S,
    Continuation,
    NextStep,
    after_run,
    after_voided,
    continuation,
)
from consumer.loop.mapping import CLAIM_LOST
from consumer.pool import Outcome
from consumer.pool.outcome import HANDLER_ERROR, JOURNAL_UNAVAILABLE, RaisedError
from feedback.status import State


class KnownRun(NamedTuple):
    """A run in flight, as far as this worker knows it.

    Args:
        entered: the journal let it into its effect.
        doubtful: it follows a run whose effect may have happened.
        asks: the counterparty is asked about it, instead of running it.
    """

    run: Run
    delivery: Delivery
    entered: bool
    doubtful: bool
    asks: bool

    @property
    def claim(self) -> Claim:
        """Its claim, as it was granted."""
        return mapping.claim(self.delivery)


@dataclass(frozen=True, slots=True)
class Settlement:
    """How one run ended.

    Attributes:
        finish: its end; None where it has none.
        follows: the next run of a run without an end, as it is asked for.
        raised: the error of a failed run.
        is_committed: a child has written the end with its own transaction.
        stands: whether the journal has the end as it is here; False where its row says otherwise.
        due_at: epoch ms of the next run, where the end is RETRYING and the journal has it.
    """

    run: Run
    delivery: Delivery
    finish: Finish | None = None
    follows: Continuation | None = None
    raised: RaisedError | None = None
    is_committed: bool = False
    stands: bool = True
    due_at: int | None = None

    @property
    def is_retrying(self) -> bool:
        """Whether its client hears that another run follows a run without an end.

        Not while the counterparty is asked; nor where the claim is lost: then another worker most
        likely runs it.
        """
        after = self.follows
        return after is not None and not after.asks and after.takeover.because != CLAIM_LOST

    @property
    def is_dead(self) -> bool:
        """Whether it failed for good: a dead letter follows."""
        end = self.finish
        return end is not None and end.state == State.FAILED and not end.resend

    def written(self, result: FinishResult) -> Settlement:
        """Return it as the journal has it now."""
        finish, row = result.resolution or self.finish, result.row
        due_at: int | None = None
        is_written = result.kind in (FinishKind.WRITTEN, FinishKind.ALREADY)
        if is_written and finish is not None and finish.state == State.RETRYING:
            due_at = result.due_at if row is None else row.due_at
        stands = row is None and result.kind is not FinishKind.LOST
        if finish is self.finish and (stands, due_at) == (self.stands, self.due_at):
            return self
        return replace(self, finish=finish, stands=stands, due_at=due_at)


class Skipping(NamedTuple):
    """A waiting request that ends without a run, since another one has succeeded in its stead.

    Args:
        by: the run that has succeeded.
    """

    delivery: Delivery
    by: Run

    @property
    def entry(self) -> Skip:
        """The wish for the journal."""
        return Skip(mapping.claim(self.delivery), *self.by)


def of_outcome(known: KnownRun, outcome: Outcome, *, now_ms: int, now_s: float) -> Settlement:
    """Return the settlement of a run whose child told its outcome.

    Args:
        now_ms: epoch ms. now_s: monotonic.
    """
    run, delivery = known.run, known.delivery
    is_transactional = delivery.handler.effect is EffectKind.TRANSACTIONAL
    if outcome.stale:
        # The journal refused this run its effect, so it left nothing. The database may have lost
        # the claim, and then nobody else would end the request. Where another worker has it, the
        # journal refuses this too, and says how it stands.
        return _again(known, CLAIM_LOST)
    if outcome.unbegun and is_transactional:
        if now_ms < delivery.deadline_at:
            return Settlement(run, delivery)
        # The journal's clock decides, and ends it as EXPIRED.
        return _again(known, JOURNAL_UNAVAILABLE)
    finish = mapping.finish(run, outcome, claim=known.claim)
    if outcome.committed:
        return Settlement(run, delivery, finish, is_committed=True)
    if outcome.voided:
        return Settlement(run, delivery, follows=after_voided(delivery, run[1]))
    if not (known.asks or is_transactional) and _leaves_doubt(known, outcome):
        because = outcome.code or State.IN_DOUBT
        error = outcome.message or ""
        return in_doubt(
            known, because, outcome.message, error=error, due_s=now_s + PAUSE_AFTER_ERROR_S
        )
    return Settlement(run, delivery, finish, raised=outcome.raised)


def of_death(known: KnownRun, because: str, why: str) -> Settlement:
    """Return the settlement of a run whose child died or hung.

    Args:
        because: a stable code.
        why: one line for a person.
    """
    if known.asks:
        why = f"while it was asked about: {why}"
        end = mapping.in_doubt(known.run, because, why, claim=known.claim)
        return Settlement(known.run, known.delivery, end)
    is_external = known.delivery.handler.effect is EffectKind.EXTERNAL
    if is_external or known.entered or known.doubtful:
        return in_doubt(known, because, why)
    return _again(known, because)


def in_doubt(
    known: KnownRun,
    because: str,
    message: str | None,
    *,
    error: str | None = None,
    due_s: float = 0.0,
) -> Settlement:
    """Return the settlement of a run whose effect may have happened: its handler's policy decides.

    Args:
        because: a stable code.
        message: one line for the person who may have to decide.
        error: the text of the error that the run ended with; None where it died.
        due_s: monotonic time before which nothing else is tried.
    """
    run, delivery = known.run, known.delivery
    handler = delivery.handler
    after = after_run(handler.effect, handler.in_doubt, effect_begun=True)
    if after is NextStep.PARK:
        end = mapping.in_doubt(run, because, message, claim=known.claim)
        return Settlement(run, delivery, end)
    follows = continuation(delivery, run[1], after, because=because, error=error, due_s=due_s)
    return Settlement(run, delivery, follows=follows)


def _again(known: KnownRun, because: str) -> Settlement:
    again = continuation(known.delivery, known.run[1], NextStep.RUN_AGAIN, because=because)
    return Settlement(known.run, known.delivery, follows=again)


def _leaves_doubt(known: KnownRun, outcome: Outcome) -> bool:
    """Whether the policy is asked about this end, and not only a person."""
    if outcome.state is State.IN_DOUBT:
        return True
    if not known.doubtful:
        return False
    # Where it ended before its own effect, that of the run before it may have happened.
    is_marked = known.delivery.handler.effect is EffectKind.MARKED
    is_before = is_marked and not known.entered and outcome.state is State.FAILED
    # That nothing happened is said of this run alone.
    return is_before or outcome.resend or outcome.code == HANDLER_ERROR
