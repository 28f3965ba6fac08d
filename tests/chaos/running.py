"""Running one row, from its servers to its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from feedback.clock import monotonic_s
from tests.chaos.account import Account
from tests.chaos.closing import close_account, common_figures
from tests.chaos.figure import Figure
from tests.chaos.opening import open_scene
from tests.chaos.place import REAL, Modules
from tests.chaos.row import Row
from tests.chaos.scene import Scene
from tests.stack import Servers

NAMED_AT_MOST = 10


@dataclass(frozen=True, slots=True)
class Result:
    """What a row gave."""

    row: Row
    seed: int
    is_short: bool
    account: Account
    figures: tuple[Figure, ...]
    seconds: float

    @property
    def missed(self) -> tuple[Figure, ...]:
        """The figures that were not met."""
        return tuple(figure for figure in self.figures if not figure.met)

    @property
    def good(self) -> bool:
        """Whether every promise was kept and every figure met."""
        return self.account.kept and not self.missed

    @property
    def reasons(self) -> list[str]:
        """Why it is not good: the promises that were broken, with some requests, and figures."""
        account = self.account
        broken = {
            "ran twice": account.ran_twice,
            "never told": account.never_told,
            "told wrongly": account.told_wrongly,
        }
        named = [
            f"{len(ids)} {what}: {', '.join(ids[:NAMED_AT_MOST])}"
            for what, ids in broken.items()
            if ids
        ]
        words = sorted(set(account.words.values()))
        named += [f"told wrongly: {one}" for one in words[:NAMED_AT_MOST]]
        return named + [f"missed: {figure}" for figure in self.missed]

    def as_json(self) -> dict[str, Any]:
        """Return the row under the names of docs: Files of figures, and all else known of it."""
        account = self.account
        return {
            "fault": self.row.fault,
            "seed": self.seed,
            "requests": account.requests,
            "ran_twice": len(account.ran_twice),
            "never_told": len(account.never_told),
            "told_wrongly": len(account.told_wrongly),
            "in_doubt": len(account.in_doubt),
            "resent": account.resent,
            "told_p95_s": account.told_p95_s,
            "told_max_s": account.told_max_s,
            "orders": account.orders,
            "asked_anew": account.asked_anew,
            "not_sent": account.not_sent,
            "short": self.is_short,
            "journal": self.row.journal,
            "seconds": round(self.seconds, 1),
            "figures": [str(figure) for figure in self.figures],
            "missed_only_time": self.account.kept and all(one.timed for one in self.missed),
            "reasons": self.reasons,
        }


def run_row(
    row: Row,
    *,
    seed: int,
    short: bool,
    servers: Servers,
    folder: Path,
    modules: Modules = REAL,
    on_open: Callable[[Scene], None] = lambda scene: None,
) -> Result:
    """Run one row and return its result.

    Args:
        folder: for its settings and logs; emptied before.
        modules: whose commands are worker and resender: other ones have a fault planted in them.
        on_open: told of the scene, for who wants to watch.

    Raises:
        OncewardError, StackError, TimeoutError: something that the row needs is not there.
    """
    began_s = monotonic_s()
    with open_scene(
        row, seed=seed, short=short, servers=servers, folder=folder, modules=modules
    ) as scene:
        on_open(scene)
        figures = [*row.act(scene)]
        account = close_account(scene)
        figures += common_figures(scene)
    return Result(row, seed, short, account, tuple(figures), monotonic_s() - began_s)
