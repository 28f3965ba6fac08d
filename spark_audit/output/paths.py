"""The paths of a day's files under `[audit] output`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from spark_audit.output.location import Location
from spark_audit.output.outputs import is_whole, settled

P_co = TypeVar("P_co", bound=Location, covariant=True)


@dataclass(frozen=True, slots=True)
class DayPaths(Generic[P_co]):
    """The files and folders of one day."""

    output: P_co
    date: str

    @property
    def sifted(self) -> P_co:
        """Parquet: the requests to be judged, and the counts of the others."""
        return self._of("sifted")

    @property
    def judged(self) -> P_co:
        """Parquet, one row for each request that was judged."""
        return self._of("judged")

    @property
    def findings(self) -> P_co:
        """Parquet by kind of finding."""
        return self._of("findings")

    @property
    def report(self) -> P_co:
        """The folder of the files that people and programs read."""
        return self._of("reports")

    @property
    def summary(self) -> P_co:
        """The counts, as JSON."""
        return settled(self.report) / "summary.json"

    @property
    def page(self) -> P_co:
        """The page for a person."""
        return settled(self.report) / "report.html"

    @property
    def carried(self) -> P_co:
        """The requests that the next run looks at again."""
        return settled(self.report) / "carried.json"

    @property
    def before(self) -> DayPaths[P_co] | None:
        """The latest earlier day that was judged."""
        folders = self.report.parent.glob("date=*")
        dates = (one.name.removeprefix("date=") for one in folders)
        earlier = sorted((one for one in dates if one < self.date), reverse=True)
        places = (DayPaths(self.output, one) for one in earlier)
        return next((one for one in places if is_whole(one.report)), None)

    @property
    def folders(self) -> tuple[P_co, ...]:
        """The folders of all days, in each of which a day has its own."""
        kinds = ("snapshot", "sifted", "judged", "findings", "reports")
        return tuple(self.output / kind for kind in kinds)

    @property
    def metrics(self) -> P_co:
        """The last run in Prometheus' text format; one file for all days."""
        return self.output / "onceward_audit.prom"

    def _of(self, kind: str) -> P_co:
        return self.output / kind / f"date={self.date}"
