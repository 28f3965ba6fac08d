"""In a checkout `onceward.consumer.x` is the module `consumer.x`: one object under two names.

A second module object for one file would have classes and a registry of handlers of its own:
`except Rejected` would miss an error that the other one raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from types import CodeType, ModuleType

from onceward.checkout.rooms import room_below


class AliasFinder(MetaPathFinder):
    """Finds the modules of `onceward.<room>` where rooms can be imported by their own names."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return a spec that gives the room's own module; None for other names."""
        name = room_below(fullname)
        found = None if name is None else find_spec(name)
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
