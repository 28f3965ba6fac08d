"""The requests that a run could not judge to the end, kept for the next run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from feedback.errors import NotAvailable
from spark_audit.judge.carry_over import CarryOver
from spark_audit.output.location import Location
from spark_audit.output.outputs import write_text

Place = tuple[str, int]


def write_carried(path: Location, carried: CarryOver) -> None:
    """Write a new file."""
    read_from = [[*place, offset] for place, offset in sorted(carried.read_from.items())]
    text = json.dumps({"version": 1, "ids": sorted(carried.ids), "read_from": read_from})
    write_text(path, text + "\n")


def read_carried(paths: Iterable[Location]) -> tuple[tuple[str, ...], Mapping[Place, int]]:
    """Return the ids, and from which offset their partitions are read; nothing without a file.

    Raises:
        NotAvailable: it cannot be read, so that requests would be forgotten.
    """
    ids, read_from = dict[str, None](), dict[Place, int]()
    for path in paths:
        some, places = _read(path)
        ids.update(dict.fromkeys(some))
        for place, offset in places.items():
            read_from[place] = min(offset, read_from.get(place, offset))
    return tuple(ids), read_from


def _read(path: Location) -> tuple[tuple[str, ...], Mapping[Place, int]]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        read_from = {(topic, number): offset for topic, number, offset in found["read_from"]}
        return tuple(found["ids"]), read_from
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotAvailable(
            f"{path} cannot be read ({type(error).__name__}): judge that day again"
        ) from error
