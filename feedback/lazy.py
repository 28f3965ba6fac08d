"""Names of a package that are imported when they are first asked for (PEP 562).

A program that imports a package pays only for the names that it uses: a handler loads no client,
and a client of threads loads nothing of asyncio's.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping

from feedback import ABOVE


def lazy_names(
    package: str, homes: Mapping[str, tuple[str, ...]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package.

    The package names the same imports under `if TYPE_CHECKING:`, for tools that only read it.

    Args:
        package: its `__name__`.
        homes: the names that it exports, by the module that has them. The module's name begins
            with its room, or with `onceward.` in the face itself. Modules in the package stand
            under the package's own name.
    """
    home_of = {
        name: home if home.startswith("onceward.") else ABOVE + home
        for home, names in homes.items()
        for name in names
    }

    def find(name: str) -> object:
        home = home_of.get(name)
        if home is None:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home == package:
            return importlib.import_module(f"{package}.{name}")
        value = getattr(importlib.import_module(home), name)
        setattr(sys.modules[package], name, value)
        return value

    def listed() -> list[str]:
        return sorted({*vars(sys.modules[package]), *home_of})

    return find, listed
