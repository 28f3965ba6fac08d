"""The writes of one call: cut in halves until the item that the database refuses is alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields, replace

from consumer.journal.claims.claiming import Claims
from consumer.journal.claims.finishing import finish, mark_effects, mark_published
from consumer.journal.claims.skipping import refuse, skip
from consumer.journal.claims.takeover import granted_names, take_over
from consumer.journal.journal_writer import JournalWriter
from consumer.journal.losses.catching_up import catch_up
from consumer.journal.losses.restoring import finish_over, restore
from consumer.journal.losses.told_rule import ToldRun
from consumer.journal.ordering import lock_keys
from consumer.journal.records import (
    Applied,
    Claim,
    EffectMark,
    Finish,
    FinishKind,
    OwnRun,
    Published,
    Refusal,
    Row,
    Run,
    Skip,
    Takeover,
)


@dataclass(frozen=True, slots=True)
class Work:
    """The writes of one transaction, in the order in which they are carried out.

    Attributes:
        own_runs: the runs of this worker, as it knows them; a run or an end that the database has
            lost is written again.
        told_runs: the latest runs of these requests by their statuses, read before this call; a row
            that is behind them catches up.
    """

    own_runs: Sequence[OwnRun] = ()
    told_runs: Sequence[ToldRun] = ()
    finishes: Sequence[Finish] = ()
    effects: Sequence[EffectMark] = ()
    takeovers: Sequence[Takeover] = ()
    published: Sequence[Published] = ()
    refusals: Sequence[Refusal] = ()
    skips: Sequence[Skip] = ()
    claims: Sequence[Claim] = ()

    def __len__(self) -> int:
        return sum(len(getattr(self, kind.name)) for kind in fields(self))

    def halves(self) -> tuple[Work, Work]:
        """Return the first and the second half; their order is that of the whole."""
        left = len(self) // 2
        first, second = {}, {}
        for kind in fields(self):
            items = getattr(self, kind.name)
            first[kind.name], second[kind.name] = items[:left], items[left:]
            left = max(0, left - len(items))
        return Work(**first), Work(**second)

    def cut(self, keys: int) -> tuple[Work, Work | None]:
        """Return the claims up to a number of ordered keys, and the claims behind them."""
        seen: set[str] = set()
        for at, one in enumerate(self.claims):
            if one.order_key is not None:
                seen.add(one.order_key)
            if len(seen) > keys:
                return replace(self, claims=self.claims[:at]), Work(claims=self.claims[at:])
        return self, None

    def _going_on(self, tried: Collection[str]) -> set[str]:
        """Return the requests of which this would go on with a claim that stands there."""
        again = {one.request_id for one in self.takeovers}
        return again | {one.request_id for one in self.effects} | {*tried}

    def carry_out(
        self,
        writer: JournalWriter,
        *,
        held: Collection[Run],
        tried: Collection[str] = (),
        expects_rows: bool = False,
    ) -> Applied:
        lock_keys(writer.connection, writer.group, self.claims)
        # Before all else: later decisions need rows that are complete.
        restored = self._restored(writer, tried)
        finished = finish(writer, self.finishes) if self.finishes else {}
        if any(one.kind is FinishKind.LOST for one in finished.values()):
            restored += finish_over(writer, self.finishes, finished)
        effects = mark_effects(writer, self.effects) if self.effects else set()
        # Before the claims, so that a resend finds the run that we took over.
        taken = take_over(writer, self.takeovers, held=held)
        if self.published:
            mark_published(writer.connection, writer.group, self.published)
        refusals = refuse(writer, self.refusals) if self.refusals else []
        # After the finish of the requests they name, which they check, and before the next claim.
        skipped = skip(writer, self.skips) if self.skips else []
        claims = Claims(
            writer, {*held, *granted_names(taken)}, tried=tried, expects_rows=expects_rows
        )
        verdicts = claims.decide(self.claims) if self.claims else []
        return Applied(
            tuple(verdicts),
            frozenset(effects),
            finished,
            tuple(refusals),
            taken,
            tuple(skipped),
            tuple(restored),
        )

    def _restored(self, writer: JournalWriter, tried: Collection[str]) -> list[Row]:
        restored: list[Row] = []
        if self.own_runs:
            restored += restore(writer, self.own_runs)
        if self.told_runs:
            # A worker knows more of its own runs than their clients were told.
            restored += catch_up(writer, self.told_runs, going_on=self._going_on(tried))
        return restored
