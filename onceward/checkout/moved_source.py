"""Loads the rooms of a checkout for a project that has a `consumer.py` or `feedback/` of its own.

The rooms are then loaded as in an installed Onceward: below `onceward`, with imports that say so.
Nothing of it is cached, so each process starts some seconds later than with a wheel.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from importlib.util import decode_source
from types import ModuleType
from typing import Any, NoReturn

from onceward.checkout.rooms import FACE, ROOMS, ROOT
from onceward.checkout.wheel_tree import NOT_INSTALLED, moved

REMEDY = f"install Onceward here, by pip install {ROOT}"


class MovedFinder(MetaPathFinder):
    """Finds all modules below `onceward` where the rooms' own names are a project's."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the spec of a file that imports rooms; None for other names."""
        face, _, name = fullname.partition(".")
        if face != FACE or not name or name.partition(".")[0] == NOT_INSTALLED:
            return None
        folders = [str(ROOT)] if name in ROOMS else path or ()
        found = (_finder(folder).find_spec(fullname) for folder in folders)
        return next((one for one in found if one is not None), None)


class _MovedLoader(SourceFileLoader):
    """Compiles a room's file with its imports below `onceward`."""

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:  # type: ignore[override]
        """Return the code of the text that the wheel would have."""
        text = moved(decode_source(data), str(path))
        return super().source_to_code(text.encode(), path)

    def path_stats(self, path: str) -> Any:
        """Let no code be cached: the file's cache is that of its text as it is.

        Raises:
            OSError: always, which the import system takes for no cache.
        """
        raise OSError(path)

    def get_resource_reader(self, name: str | None = None) -> NoReturn:
        """Give nobody the files as they are: a package that is made of them has wrong imports.

        Raises:
            OSError: always.
        """
        raise OSError(errno.ENOTSUP, f"beside a project's own consumer.py or feedback: {REMEDY}")


def _finder(folder: str) -> FileFinder:
    return FileFinder(folder, (_MovedLoader, SOURCE_SUFFIXES))
