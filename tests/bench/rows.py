"""What is written down: one row for each system, case and round, and CPU by part beside it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.bench.measure.cost import Cost
from tests.bench.measure.figures import percentile
from tests.bench.plan import Case, System
from tests.bench.submit.process import Answer


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, by the names of docs: Files of figures; None where it has no such one."""

    system: str
    journal: str | None
    engine: str | None
    case: str
    round: int
    requests_per_s: float | None
    p50_ms: float | None
    p99_ms: float | None
    cpu_s_per_1000: float | None
    pss_mib: float | None
    other_cpu_percent: float | None


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement as it was made.

    Attributes:
        pss_mib: memory of the worker and its children, where it was looked at.
    """

    system: System
    case: Case
    round: int
    answer: Answer
    cost: Cost
    pss_mib: float | None

    @property
    def cpu_by_part(self) -> dict[str, float]:
        """CPU seconds of each part for 1,000 requests."""
        return self.cost.per_1000(self.answer.requests)

    def row(self) -> Row:
        """Return the row of this measurement."""
        took_ms = self.answer.took_ms
        return Row(
            system=self.system.product,
            journal=self.system.journal,
            engine=self.system.engine,
            case=self.case.name,
            round=self.round,
            requests_per_s=round(self.answer.requests / self.answer.seconds, 1),
            p50_ms=round(percentile(took_ms, 50), 2) if took_ms else None,
            p99_ms=round(percentile(took_ms, 99), 2) if took_ms else None,
            cpu_s_per_1000=round(sum(self.cpu_by_part.values()), 4),
            pss_mib=None if self.pss_mib is None else round(self.pss_mib, 1),
            other_cpu_percent=round(self.cost.other_cpu_percent, 1),
        )

    def parts(self) -> list[dict[str, object]]:
        """Return one row for each part."""
        whose = {
            "system": self.system.product,
            "journal": self.system.journal,
            "engine": self.system.engine,
            "case": self.case.name,
            "round": self.round,
        }
        return [
            {**whose, "part": part, "cpu_s_per_1000": round(seconds, 4)}
            for part, seconds in self.cpu_by_part.items()
        ]


def write(measured: Sequence[Measured], facts: Mapping[str, str], folder: Path) -> None:
    """Write `main.json` (rows) and `parts.json` (CPU by part, machine, settings)."""
    rows = [asdict(one.row()) for one in measured]
    parts = [part for one in measured for part in one.parts()]
    write_json(folder / "main.json", rows)
    write_json(folder / "parts.json", {**facts, "rows": parts})


def write_json(path: Path, data: object) -> None:
    """Write a file that a reader finds whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    part.replace(path)
