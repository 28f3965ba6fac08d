"""Old days cut down to what later ones need of them: their offsets, figures and verdicts.

What a day costs is its records and rows, and all that was made of them. What the chain of days
needs of it is its manifest; the next day, what was carried over; trends and people, its summary and
its page. So these stay for ever, a few kilobytes a day, and the rest goes.

Never pruned: the newest day, whose verdict may be asked for again, and a day that was read and not
judged, which the next run judges.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from feedback.errors import NotAvailable
from spark_audit.outputs import sync_folder
from spark_audit.places import Places
from spark_audit.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Pruned:
    """What was removed of a day, or would be.

    Args:
        date: YYYY-MM-DD.
        bytes: of the files.
    """

    date: str
    bytes: int


def prune(output: Path, *, before: str, is_dry: bool = False) -> list[Pruned]:
    """Cut down all days before a date, the oldest first; return those of which something went.

    The caller holds the lock of the output folder. If this process dies within a day:

    - before its mark is written, the day is whole;
    - after it, the day is a pruned one: no run judges its snapshot, whatever of it is still there,
      and the next prune removes the rest. Its manifest, summary, page and carry-over are never
      touched, so the chain and the trends are the same after each step.

    Args:
        output: `[audit] output`.
        before: YYYY-MM-DD.
        is_dry: remove nothing.

    Raises:
        NotAvailable: the disk refuses.
    """
    try:
        return [one for one in _each(output, before, is_dry=is_dry) if one.bytes]
    except OSError as error:
        raise NotAvailable(f"{output} cannot be pruned: {error.strerror or error}") from error


def _each(output: Path, before: str, *, is_dry: bool) -> Iterator[Pruned]:
    for date in _old(output, before):
        places, snapshot = Places(output, date), Snapshot.of(output, date)
        there = [*_derived(places), *snapshot.parts]
        there = [one for one in there if one.exists()]
        size = sum(map(_size, there))
        if there and not is_dry:
            # First the mark: half of a snapshot must never be judged as a whole one.
            snapshot.mark_pruned()
            for one in there:
                _remove(one)
            sync_folder(snapshot.folder)
        yield Pruned(date, size)


def _old(output: Path, before: str) -> list[str]:
    """Return the dates that may be cut down."""
    folders = sorted((output / "snapshot").glob("date=*"))
    judged = [
        one.name.removeprefix("date=")
        for one in folders
        if Snapshot(one).is_read and _is_judged(output, one.name.removeprefix("date="))
    ]
    return [date for date in judged[:-1] if date < before]


def _is_judged(output: Path, date: str) -> bool:
    return Places(output, date).summary.is_file()


def _derived(places: Places) -> list[Path]:
    """Return what was made of a snapshot, but for what later days and people need."""
    kept = {places.summary, places.page, places.carried}
    of_report = [one for one in sorted(places.report.iterdir()) if one not in kept]
    return [places.findings, places.judged, places.sifted, *of_report]


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(one.stat().st_size for one in files if one.is_file())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink()
