"""What one turn of the worker's loop writes into the journal, in one transaction."""

from __future__ import annotations

from collections.abc import Sequence

from consumer import entries
from consumer.continuation import Continuation
from consumer.delivery import Delivery
from consumer.held import Held
from consumer.journal import Applied, Journal, Published, Refusal, Skip
from consumer.teller import Teller

PUBLISHED_AT_ONCE = 512
PUBLISHED_EVERY_S = 1.0


class Writing:
    """Writes what is in hand, and what clients have been told. Belongs to the loop's thread.

    Args:
        held: what is in hand; it is left as it is, for whoever acts on what was written.
        teller: knows what clients have been told.

    Attributes:
        published: what clients have been told, from before a write until the journal has it.
    """

    def __init__(self, *, held: Held, journal: Journal, teller: Teller) -> None:
        self._held = held
        self._journal = journal
        self._teller = teller
        self._published_s = 0.0
        self.published: tuple[Published, ...] = ()

    def has_more(self, now_s: float) -> bool:
        """Whether there is anything to write beside claims and takeovers."""
        held = self._held
        if held.refusing or held.finishes or held.effects or self.published:
            return True
        return self._published_due(now_s)

    def write(
        self,
        batch: Sequence[Delivery],
        again: Sequence[Continuation],
        now_s: float,
        *,
        skips: Sequence[Skip] = (),
    ) -> Applied:
        """Write all of a turn; repeated as it is when its outcome is unknown.

        Args:
            batch: what is to be claimed.
            again: what is to be taken over.
            skips: what is to end, since others have succeeded in its stead.

        Raises:
            JournalUnavailable: the outcome is unknown; the same call may be repeated.
        """
        if not self.published and self._published_due(now_s):
            # Kept until it is written: what is away must always have something to be tried with.
            self.published = tuple(self._teller.take_told())
            self._published_s = now_s
        applied = self._journal.apply(
            claims=[entries.claim(one) for one in batch],
            refusals=self._refusals(),
            skips=skips,
            effects=list(self._held.effects.values()),
            takeovers=[one.takeover for one in again],
            finishes=list(self._held.finishes.values()),
            published=self.published,
            # Also what waits to be taken over: it may be ours already, by a call of unknown
            # outcome, and a resend of it must not pass for the run that this call allowed.
            held=self._held.running.keys() | self._held.continuing.keys(),
        )
        self.published = ()
        return applied

    def write_ends(self) -> Applied:
        """Write only how runs ended, and refusals.

        Raises:
            JournalUnavailable: the outcome is unknown.
        """
        return self._journal.apply(
            refusals=self._refusals(), finishes=list(self._held.finishes.values())
        )

    def write_told(self) -> Applied:
        """Write only refusals, and all that clients have been told.

        Raises:
            JournalUnavailable: a sweep tells clients again.
        """
        told = (*self.published, *self._teller.take_told())
        return self._journal.apply(published=told, refusals=self._refusals())

    def write_refusals(self) -> Applied:
        """Write only refusals.

        Raises:
            JournalUnavailable: the outcome is unknown.
        """
        return self._journal.apply(refusals=self._refusals())

    def _published_due(self, now_s: float) -> bool:
        told = self._teller.told_count
        return told >= PUBLISHED_AT_ONCE or (
            told > 0 and now_s - self._published_s >= PUBLISHED_EVERY_S
        )

    def _refusals(self) -> list[Refusal]:
        return [entries.refusal(one) for one in self._held.refusing]
