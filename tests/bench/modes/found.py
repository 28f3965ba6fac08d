"""What is written down: a row for each mode, arm and N, and every measurement beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from tests.bench.measure.cost import Cost
from tests.bench.modes.calls import Call
from tests.bench.modes.plan import Case
from tests.bench.modes.steady import Steady
from tests.bench.rows import write_json


@dataclass(frozen=True, slots=True)
class Found:
    """One measurement, of one round."""

    case: Case
    round: int
    steady: Steady
    cost: Cost
    calls: Sequence[Call]

    @property
    def share(self) -> float:
        """What was reached of the ceiling, 1 is all."""
        return self.steady.tps / self.case.ceiling_tps


@dataclass(frozen=True, slots=True)
class Row:
    """A case with the names of docs: Files of figures; tps is the median of its rounds."""

    mode: str
    n: int
    arm: str
    tps: float
    ceiling_tps: float
    share_of_ceiling: float


def by_case(found: Sequence[Found]) -> dict[Case, list[Found]]:
    """Return the measurements of each case, in the order in which the cases came first."""
    groups: dict[Case, list[Found]] = {}
    for one in found:
        groups.setdefault(one.case, []).append(one)
    return groups


def rows(found: Sequence[Found]) -> list[Row]:
    """Return a row for each case."""
    return [_row(case, median(one.steady.tps for one in of)) for case, of in by_case(found).items()]


def write(found: Sequence[Found], facts: Mapping[str, str], folder: Path) -> None:
    """Write `modes.json` (rows) and `modes-rounds.json` (each measurement, machine, settings)."""
    write_json(folder / "modes.json", [asdict(row) for row in rows(found)])
    every = [_measurement(one) for one in found]
    write_json(folder / "modes-rounds.json", {**facts, "rounds": every})


def _row(case: Case, tps: float) -> Row:
    return Row(
        mode=case.mode,
        n=case.n,
        arm=case.arm,
        tps=round(tps, 3),
        ceiling_tps=round(case.ceiling_tps, 3),
        share_of_ceiling=round(tps / case.ceiling_tps, 4),
    )


def _measurement(one: Found) -> dict[str, object]:
    per_call = one.cost.per_1000(len(one.calls))
    return {
        **asdict(_row(one.case, one.steady.tps)),
        "round": one.round,
        "window_s": round(one.steady.seconds, 1),
        "counterparty_late_ms": round(one.steady.late_ms, 3),
        "cpu_ms_per_call": {part: round(spent, 3) for part, spent in per_call.items()},
        "other_cpu_percent": round(one.cost.other_cpu_percent, 1),
    }
