"""The journal's tables: rows, history and leases; whatever is written is shown to a watch."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from consumer.journal import Row
from consumer.journal.claims.forgetting import PruneMark


class Run(NamedTuple):
    """A row of the history."""

    request_id: str
    generation: int
    attempt: int
    owner: str
    outcome: str
    by_whom: str
    effect_at: int | None
    effect_kind: str | None
    allowed_by: str | None
    place: tuple[str, int, int]


class Change(NamedTuple):
    """A row that was written: what it was, what it is, and who wrote it."""

    before: Row | None
    after: Row
    by: str


class Snapshot(NamedTuple):
    """All that stood in the tables after a commit."""

    rows: dict[str, Row]
    history: tuple[Run, ...]
    leases: dict[str, int]
    turns: dict[str, int]
    forgotten: dict[tuple[str, int], PruneMark]


class Tables:
    """The tables of one group.

    Args:
        now_ms: the database's clock.
        on_change: told of every row that is written.
    """

    def __init__(self, now_ms: Callable[[], int], on_change: Callable[[Change], None]) -> None:
        self.now_ms = now_ms
        self._on_change = on_change
        self.rows: dict[str, Row] = {}
        self.history: list[Run] = []
        self.leases: dict[str, int] = {}
        self.forgotten: dict[tuple[str, int], PruneMark] = {}
        # What no row shows: in which order a request is kept.
        self.order_keys: dict[str, str | None] = {}
        self._turns: dict[str, int] = {}

    def snapshot(self) -> Snapshot:
        """Return all that stands here."""
        return Snapshot(
            dict(self.rows),
            tuple(self.history),
            dict(self.leases),
            dict(self._turns),
            dict(self.forgotten),
        )

    def restore(self, past: Snapshot) -> set[str]:
        """Forget what was committed since then; return the requests whose rows that changed."""
        names = self.rows.keys() | past.rows.keys()
        changed = {one for one in names if self.rows.get(one) != past.rows.get(one)}
        self.rows, self.history = dict(past.rows), list(past.history)
        self.leases, self._turns = dict(past.leases), dict(past.turns)
        self.forgotten = dict(past.forgotten)
        return changed

    def register(self, worker_id: str, lease_ms: int) -> int:
        """Begin a lease, or take it up again; return its end."""
        self.leases[worker_id] = self.now_ms() + lease_ms
        return self.leases[worker_id]

    def renew(self, worker_id: str, lease_ms: int) -> int | None:
        """Extend a lease that has a row."""
        return self.register(worker_id, lease_ms) if worker_id in self.leases else None

    def release(self, worker_id: str) -> None:
        """End a lease."""
        self.leases.pop(worker_id, None)

    def lives(self, worker_id: str) -> bool:
        """Whether the worker has a lease that is not over."""
        return self.leases.get(worker_id, 0) > self.now_ms()

    def take_turn(self, name: str, every_ms: int) -> bool:
        """Whether it is the caller's turn: one of all callers has it, each `every_ms`."""
        last, now = self._turns.get(name), self.now_ms()
        if last is not None and now - every_ms < last <= now:
            return False
        self._turns[name] = now
        return True

    def _keep(
        self, row: Row, by: str, *, outcome: str | None = None, allowed_by: str | None = None
    ) -> None:
        run = Run(
            row.request_id,
            row.generation,
            row.attempt,
            row.owner,
            outcome or row.state,
            by,
            row.effect_at,
            row.effect_kind,
            allowed_by,
            (row.topic, row.partition, row.offset),
        )
        self.history.append(run)

    def _write(self, before: Row | None, after: Row, by: str) -> None:
        self.rows[after.request_id] = after
        self._on_change(Change(before, after, by))
