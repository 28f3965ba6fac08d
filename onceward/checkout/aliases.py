"""In a checkout `onceward.consumer.x` is the module `consumer.x`: one object under two names.

A second module object for one file would have classes and a registry of handlers of its own:
`except Rejected` would miss what the other one raised.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path
from types import CodeType, ModuleType

ROOMS = ("consumer", "feedback", "producer_client", "spark_audit")
FACE = "onceward"
ROOT = Path(__file__).resolve().parents[2]


class Rooms(MetaPathFinder):
    """Finds `onceward.<room>` and what lies below it."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return what makes the room's own module that of the name; None for other names.

        Raises:
            ImportError: the room's name belongs to a package or file of somebody else.
        """
        face, _, name = fullname.partition(".")
        room = name.partition(".")[0]
        if face != FACE or room not in ROOMS:
            return None
        _require_ours(room)
        found = find_spec(name)
        if found is None:
            return None
        spec = ModuleSpec(fullname, _Alias(found), origin=found.origin)
        spec.submodule_search_locations = found.submodule_search_locations
        return spec


class _Alias(InspectLoader):
    """Gives the module that has another name already."""

    def __init__(self, found: ModuleSpec) -> None:
        self._found = found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the room's own module."""
        return import_module(self._found.name)

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back, which the import system has replaced."""
        module.__spec__ = self._found

    def get_code(self, fullname: str) -> CodeType | None:
        """Return the code of the room's module, for `python -m`."""
        loader = self._found.loader
        return loader.get_code(self._found.name) if isinstance(loader, InspectLoader) else None

    def get_source(self, fullname: str) -> str | None:
        """Return the text of the room's module, for tracebacks."""
        loader = self._found.loader
        return loader.get_source(self._found.name) if isinstance(loader, InspectLoader) else None

    def is_package(self, fullname: str) -> bool:
        """Tell whether the room's module is a package."""
        return self._found.submodule_search_locations is not None


def install() -> None:
    """Let this interpreter find rooms below `onceward`, before it would load a file twice."""
    if not any(isinstance(one, Rooms) for one in sys.meta_path):
        sys.meta_path.insert(0, Rooms())


def _require_ours(room: str) -> None:
    found = find_spec(room)
    origin = None if found is None else found.origin
    if origin is None or Path(origin).resolve().parent.parent != ROOT:
        raise ImportError(
            f"{room!r} is {origin or 'not importable'} here, and not the folder beside {FACE} in "
            f"{ROOT}: install Onceward with `pip install {ROOT}`, where it has no such name"
        )
