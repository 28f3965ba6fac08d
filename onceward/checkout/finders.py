"""Lets an interpreter find the rooms below `onceward`, whether or not their names are theirs."""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from importlib.util import find_spec
from pathlib import Path

from onceward.checkout.rooms import ROOMS, ROOT


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
