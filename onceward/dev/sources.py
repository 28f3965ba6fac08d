"""The files whose change starts the worker anew: Python files of the folder, and the settings."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

# Nothing in them is the user's own code.
LEFT_OUT = frozenset({"__pycache__", "node_modules", "site-packages"})
_VIRTUAL_ENVIRONMENT = "pyvenv.cfg"

# Of each file, the time of its last change in ns and its size.
Snapshot = dict[str, tuple[int, int]]


def snapshot(root: Path, *others: Path) -> Snapshot:
    """Return the state of each Python file below `root`, and of other files that are there."""
    found = {}
    for path in [*_python_files(root), *map(str, others)]:
        try:
            state = os.stat(path)  # noqa: PTH116 (thousands, twice a second)
        except FileNotFoundError:
            continue
        found[path] = (state.st_mtime_ns, state.st_size)
    return found


def changed(before: Snapshot, now: Snapshot) -> list[str]:
    """Return the files that changed, came or went.

    >>> changed({"a.py": (1, 5), "b.py": (1, 5)}, {"a.py": (2, 5), "c.py": (2, 1)})
    ['a.py', 'b.py', 'c.py']
    """
    return sorted(path for path in {*before, *now} if before.get(path) != now.get(path))


def _python_files(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        if _VIRTUAL_ENVIRONMENT in files:
            folders.clear()
            continue
        folders[:] = [one for one in folders if one not in LEFT_OUT and not one.startswith(".")]
        yield from (f"{folder}/{one}" for one in files if one.endswith(".py"))
