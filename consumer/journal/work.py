"""The writes of one call: cut in halves until the item that the database refuses is alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from consumer.journal.catching_up import catch_up
from consumer.journal.claiming import Claims
from consumer.journal.finishing import finish, mark_effects, mark_published
from consumer.journal.ordering import lock_keys
from consumer.journal.records import (
    Applied,
    Claim,
    EffectMark,
    Finish,
    OwnRun,
    Published,
    Refusal,
    Row,
    Run,
    Skip,
    Takeover,
)
from consumer.journal.restoring import restore
from consumer.journal.skipping import refuse, skip
from consumer.journal.takeover import granted_names, take_over
from consumer.journal.told_rule import ToldRun

_KINDS = (
    "own_runs",
    "told_runs",
    "finishes",
    "effects",
    "takeovers",
    "published",
    "refusals",
    "skips",
    "claims",
)


@dataclass(frozen=True, slots=True)
class Work:
    """The writes of one transaction, in the order in which they are carried out."""

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
        return (
            len(self.own_runs)
            + len(self.told_runs)
            + len(self.finishes)
            + len(self.effects)
            + len(self.takeovers)
            + len(self.published)
            + len(self.refusals)
            + len(self.skips)
            + len(self.claims)
        )

    def halves(self) -> tuple[Work, Work]:
        """Return the first and the second half; their order is that of the whole."""
        left = len(self) // 2
        first, second = {}, {}
        for name in _KINDS:
            items = getattr(self, name)
            first[name], second[name] = items[:left], items[left:]
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
        connection: Connection,
        *,
        group: str,
        worker_id: str,
        held: Collection[Run],
        tried: Collection[str] = (),
        outcome_topics: Collection[str] = (),
        expects_rows: bool = False,
    ) -> Applied:
        writer = (connection, group, worker_id)
        lock_keys(connection, group, self.claims)
        # Before all else: later decisions need rows that are complete.
        restored = self._restored(*writer, tried=tried, outcome_topics=outcome_topics)
        finished = finish(*writer, self.finishes) if self.finishes else {}
        effects = mark_effects(*writer, self.effects) if self.effects else set()
        # Before the claims, so that a resend finds the run that we took over.
        taken = take_over(*writer, self.takeovers, held=held)
        if self.published:
            mark_published(connection, group, self.published)
        refusals: Sequence[Row] = ()
        if self.refusals:
            refusals = refuse(*writer, self.refusals, outcome_topics=outcome_topics)
        # After the finish of the requests they name, which they check, and before the next claim.
        skipped: Sequence[Row] = ()
        if self.skips:
            skipped = skip(*writer, self.skips, outcome_topics=outcome_topics)
        claims = Claims(
            connection,
            group=group,
            worker_id=worker_id,
            held={*held, *granted_names(taken)},
            tried=tried,
            outcome_topics=outcome_topics,
            expects_rows=expects_rows,
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

    def _restored(
        self,
        connection: Connection,
        group: str,
        worker_id: str,
        *,
        tried: Collection[str],
        outcome_topics: Collection[str],
    ) -> list[Row]:
        restored: list[Row] = []
        if self.own_runs:
            restored += restore(
                connection, group, worker_id, self.own_runs, outcome_topics=outcome_topics
            )
        if self.told_runs:
            # A worker knows more of its own runs than their clients were told.
            restored += catch_up(
                connection,
                group,
                worker_id,
                self.told_runs,
                outcome_topics=outcome_topics,
                going_on=self._going_on(tried),
            )
        return restored
