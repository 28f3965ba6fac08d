"""Where the rooms are, and whether their names are theirs in this process."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

FACE = "onceward"
ROOMS = ("consumer", "feedback", "producer_client", "spark_audit")
ROOT = Path(__file__).resolve().parents[2]


def install() -> None:
    """Let this interpreter find the rooms below `onceward`.

    First of all finders: the next one would load a room's file under a second name.
    """
    if all(map(_is_ours, ROOMS)):
        from onceward.checkout.aliases import AliasFinder

        sys.meta_path.insert(0, AliasFinder())
    else:
        from onceward.checkout.moved_source import MovedFinder

        sys.meta_path.insert(0, MovedFinder())


def room_below(name: str) -> str | None:
    """Return the name that a module has by itself; None where it is not that of a room.

    >>> room_below("onceward.consumer.pool")
    'consumer.pool'
    >>> room_below("onceward.commands")
    """
    face, _, below = name.partition(".")
    return below if face == FACE and below.partition(".")[0] in ROOMS else None


def _is_ours(room: str) -> bool:
    """Tell whether a room's name is not somebody else's package or file."""
    known = sys.modules.get(room)
    if known is not None:
        found = known.__spec__
    else:
        # A worker imports handlers from the current folder, whatever its path says before.
        found = PathFinder.find_spec(room, [str(Path.cwd()), *sys.path]) or find_spec(room)
    origin = None if found is None else found.origin
    return origin is not None and Path(origin).resolve().parent.parent == ROOT
