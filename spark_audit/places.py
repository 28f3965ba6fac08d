"""Where a day's audit puts what it makes, under `[audit] output`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Places:
    """The files and folders of one day.

    Args:
        output: the folder of all days.
        date: YYYY-MM-DD.
    """

    output: Path
    date: str

    @property
    def sifted(self) -> Path:
        """Parquet: what is to be judged, and the counts of what is not."""
        return self._of("sifted")

    @property
    def judged(self) -> Path:
        """Parquet, one row for each request that was judged."""
        return self._of("judged")

    @property
    def findings(self) -> Path:
        """Parquet by kind of finding."""
        return self._of("findings")

    @property
    def report(self) -> Path:
        """The folder of what people and programs read."""
        return self._of("reports")

    @property
    def summary(self) -> Path:
        """The counts, as JSON."""
        return self.report / "summary.json"

    @property
    def page(self) -> Path:
        """The page for a person."""
        return self.report / "report.html"

    @property
    def carried(self) -> Path:
        """The requests that the next run looks at again."""
        return self.report / "carried.json"

    @property
    def before(self) -> Places | None:
        """The latest earlier day that was judged."""
        folders = self.report.parent.glob("date=*")
        dates = sorted(one.name.removeprefix("date=") for one in folders)
        earlier = [one for one in dates if one < self.date]
        return Places(self.output, earlier[-1]) if earlier else None

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of all days, in each of which a day has its own."""
        kinds = ("snapshot", "sifted", "judged", "findings", "reports")
        return tuple(self.output / kind for kind in kinds)

    @property
    def metrics(self) -> Path:
        """The last run in Prometheus' text format; one file for all days."""
        return self.output / "onceward_audit.prom"

    def _of(self, kind: str) -> Path:
        return self.output / kind / f"date={self.date}"
