"""Faults planted into the product, or into the conditions of its SQL: the simulation finds each.

Each is what a tired person might write. None is a copy: a part of the real code is left out, put
before another, or told to look elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

from consumer import entries, sweeper
from consumer.declaration import EffectKind
from consumer.intake import Intake
from consumer.journal import (
    Applied,
    JournalUnavailable,
    Row,
    State,
    Verdict,
    VerdictKind,
    takeover_rule,
)
from consumer.journal.claiming import first_row
from consumer.kafka_source import CommitFailed
from consumer.liveness import Liveness
from consumer.republisher import Republisher
from consumer.writing import Writing
from feedback.clock import epoch_ms
from feedback.status import Stored, Write, judge
from tests.simulation import database
from tests.simulation.database import Database
from tests.simulation.redis import RedisServer

Change = tuple[object, str, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Planted:
    """One fault.

    Attributes:
        name: as in issue 4, point 7.
        changes: what is replaced: an object's attribute by another function.
    """

    name: str
    changes: tuple[Change, ...]

    def planted(self) -> ExitStack:
        """Return the context in which the product has this fault."""
        stack = ExitStack()
        for owner, name, stand_in in self.changes:
            stack.enter_context(patch.object(owner, name, stand_in))
        return stack


def _buffer_first(self: Intake, source: Any, records: Sequence[Any]) -> None:
    if records:
        self._buffer.put(self._receive(records))
        self._on_buffered()
        self._commit(source, records)


_write = Writing.write


def _hope(self: Writing, batch: Any, again: Any, now_s: float) -> Applied:
    """Take a claim for granted whose transaction had no answer."""
    try:
        return _write(self, batch, again, now_s)
    except JournalUnavailable:
        if again or self._held.finishes or self._held.effects or self._held.refusing:
            raise
        claims = [entries.claim(one) for one in batch]
        me = self._journal._worker_id
        rows = [first_row(one, State.CLAIMED, worker_id=me, now=0) for one in claims]
        verdicts = [
            Verdict(VerdictKind.RUN, claim, row, "hope")
            for claim, row in zip(claims, rows, strict=True)
        ]
        return Applied(tuple(verdicts), frozenset(), {}, ())


def _any_generation(self: Database, row: Row, generation: int) -> bool:
    return row.state == State.CLAIMED


def _anybody(self: Database, *facts: object) -> bool:
    return True


def _no_effect_at(self: Database, effect_kind: str, now: int) -> int | None:
    return None


def _trusting(row: Row) -> bool:
    return row.effect_kind == EffectKind.TRANSACTIONAL or row.effect_at is None


_after_dead = sweeper.after_dead


def _after_trusted(row: Row, handler: Any) -> Any:
    kind = EffectKind.MARKED if row.effect_kind == EffectKind.EXTERNAL else row.effect_kind
    return _after_dead(row._replace(effect_kind=kind), handler)


def _lives_by_own_clock(self: Database, worker_id: str) -> bool:
    return self.leases.get(worker_id, 0) > epoch_ms()


def _at_once(self: Liveness, now_s: float) -> bool:
    return self.lease_holds(now_s)


def _without_attempts(self: RedisServer, stored: Stored, write: Write) -> object:
    return judge(stored, replace(write, attempt=max(write.attempt, stored.attempt)))


def _taken_as_failed(self: Intake, source: Any, records: Sequence[Any]) -> dict[Any, int]:
    wanted = {(one.topic, one.partition): one.offset + 1 for one in records}
    try:
        source.commit(wanted)
    except CommitFailed:
        return {}
    return wanted


def _forget(self: Intake, source: Any, dropped: Sequence[Any]) -> None:
    """Neither tell that they were given up nor read them again: Kafka will bring them."""


def _say_nothing(self: Republisher, rows: Sequence[Row]) -> None:
    """Tell nobody."""


PLANTED = (
    Planted("dispatch before commit", ((Intake, "_take", _buffer_first),)),
    Planted("dispatch before the claim is committed", ((Writing, "write", _hope),)),
    Planted("generation check left out of finish", ((Database, "is_claimed", _any_generation),)),
    Planted("effect() without its condition", ((Database, "may_enter", _anybody),)),
    Planted(
        "a sweep that trusts an empty effect_at of a plain external handler",
        (
            (Database, "effect_at_claim", _no_effect_at),
            (takeover_rule, "effect_excluded", _trusting),
            (database, "effect_excluded", _trusting),
            (sweeper, "after_dead", _after_trusted),
        ),
    ),
    Planted("published_at set without its condition", ((Database, "is_told", _anybody),)),
    Planted(
        "lease compared by the worker's own clock", ((Database, "lives", _lives_by_own_clock),)
    ),
    Planted("sweep right after the database's return", ((Liveness, "may_sweep", _at_once),)),
    Planted("status script without the attempt rule", ((RedisServer, "judge", _without_attempts),)),
    Planted(
        "commit timeout taken as failure and forgotten",
        ((Intake, "_commit", _taken_as_failed), (Intake, "_drop", _forget)),
    ),
)
# Beside the ten of issue 4.
ALSO_PLANTED = (
    Planted("an empty Redis is not told again", ((Republisher, "_tell_rows", _say_nothing),)),
)
# The claim of a plain external handler says nothing of its effect: by itself this harms nobody.
HARMLESS = Planted("effect_at left empty", ((Database, "effect_at_claim", _no_effect_at),))
