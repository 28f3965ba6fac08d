"""A database that forgets what it has acknowledged: asynchronous commits, a standby that lagged.

What is promised of it (docs: The guarantee, 6): the worker that ran a request never grants it again
while it lives, and settles its own unfinished rows from what it knows. Another worker that finds no
trace of a run cannot know of it: such an order is excused from there on, and no other is.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from consumer.journal import Run
from tests.simulation.bank import Bank
from tests.simulation.database import Database
from tests.simulation.tables import Snapshot

# How far behind a standby is that is promoted, or a disk that nobody waited for.
LOSABLE_MS = 3_000
MOST_COMMITS = 12


class _Past(NamedTuple):
    """What stood in the database before a commit, with the effects that were made in it."""

    at_ms: int
    tables: Snapshot
    charges: dict[str, int]


class Losses:
    """What can still be forgotten, and what was.

    Attributes:
        forgotten: the requests of which the database has forgotten something.
        known_again: those of them whose latest run it knows again, by what was told of that.
        excused: the orders that another worker went on with, not knowing of an earlier run.
        back_untold: the runs whose pruning was forgotten, so that their rows are back as they
            were told to a Redis that is gone. The empty one had all endings before that.
    """

    def __init__(self, database: Database, bank: Bank) -> None:
        self._database = database
        self._bank = bank
        self._pasts: deque[_Past] = deque(maxlen=MOST_COMMITS)
        self.forgotten: set[str] = set()
        self.known_again: set[str] = set()
        self.excused: set[str] = set()
        self.back_untold: set[Run] = set()

    def before_commit(self, now_ms: int) -> None:
        """Remember what stands in the database before something is asked of it."""
        last = self._pasts[-1].tables if self._pasts else None
        tables = self._database.snapshot()
        if tables != last:
            self._pasts.append(_Past(now_ms, tables, dict(self._bank.charges)))

    def forget(self, commits: int, now_ms: int) -> set[str]:
        """Forget so many of the last commits, if they are young; return whose rows changed."""
        young = [past for past in self._pasts if now_ms - past.at_ms <= LOSABLE_MS]
        if not young:
            return set()
        past = young[-min(commits, len(young))]
        changed = self._database.restore(past.tables)
        # What was written in the database itself is forgotten with it.
        for request_id in self._bank.inside & changed:
            self._bank.undo(request_id, past.charges.get(request_id, 0))
        self._pasts.clear()
        self.forgotten |= changed
        self.known_again -= changed
        return changed
