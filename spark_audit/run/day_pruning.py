"""Old days cut down to the parts that later ones need: offsets, figures and verdicts.

A day's room goes into its records and rows, and the files made of them. The chain of days needs its
manifest; the next day needs its carried requests; trends and people need its summary and its page.
So these stay for ever, a few kilobytes a day, and the rest goes.

Never pruned: the newest day, whose verdict may be asked for again, and a day that was read, or read
again, and not judged since, which the next run judges.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from feedback.errors import NotAvailable
from spark_audit.output.location import Location
from spark_audit.output.outputs import content_of, remove, require_alone, settled, size_of
from spark_audit.output.paths import DayPaths
from spark_audit.stage.days import is_judged
from spark_audit.stage.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Pruned:
    """The files that were removed of a day, or would be."""

    date: str
    bytes: int


def prune(output: Location, *, before: str, is_dry: bool = False) -> list[Pruned]:
    """Cut down all days before a date, the oldest first; return those of which something went.

    The caller holds the lock of the output folder. If this process dies within a day:

    - before its mark is written, the day is whole;
    - after it, the day is a pruned one: no run judges the rest of its snapshot, and the next prune
      removes the rest. Its manifest, summary, page and carry-over are never touched, so the chain
      and the trends are the same after each step.

    Raises:
        NotAvailable: the disk refuses, or another audit took the lock over.
    """
    try:
        return [one for one in _each(output, before, is_dry=is_dry) if one.bytes]
    except OSError as error:
        raise NotAvailable(f"{output} cannot be pruned: {error.strerror or error}") from error


def _each(output: Location, before: str, *, is_dry: bool) -> Iterator[Pruned]:
    for date in _old(output, before):
        places, snapshot = DayPaths(output, date), Snapshot.of(output, date)
        there = [*_derived(places), *snapshot.parts]
        there = [one for one in there if one.exists()]
        size = sum(map(size_of, there))
        if there and not is_dry:
            require_alone(output)
            # First the mark: half of a snapshot must never be judged as a whole one.
            snapshot.mark_pruned()
            for one in there:
                require_alone(output)
                remove(one)
        yield Pruned(date, size)


def _old(output: Location, before: str) -> list[str]:
    """Return the dates that may be cut down."""
    folders = sorted((output / "snapshot").glob("date=*"), key=lambda one: one.name)
    judged = [
        one.name.removeprefix("date=")
        for one in folders
        if Snapshot(settled(one)).is_read and is_judged(output, one.name.removeprefix("date="))
    ]
    return [date for date in judged[:-1] if date < before]


def _derived(places: DayPaths[Location]) -> list[Location]:
    """Return the files made of a snapshot, without those that later days and people need."""
    kept = {one.name for one in (places.summary, places.page, places.carried)}
    of_report = [one for one in content_of(places.report) if one.name not in kept]
    return [places.findings, places.judged, places.sifted, *of_report]
