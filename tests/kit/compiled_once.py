"""SQLAlchemy compiles a statement once for all engines of a process, not once for each.

Nearly each test opens a journal of its own, and to compile its statements again took a quarter of
the processor's time of the tests of the journal. A program has one engine, and so the same cache.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy.engine import Dialect, Engine


class SharedCache:
    """Compiled statements, by all that SQLAlchemy makes them from.

    Its own key names the engine by its dialect, an object: what it holds that goes into a compiled
    statement stands here in its place.
    """

    def __init__(self) -> None:
        self._compiled: Final[dict[object, Any]] = {}

    def get(self, key: tuple[Any, ...]) -> Any:
        """Return what was compiled for a key of SQLAlchemy's, or None."""
        return self._compiled.get(_shared(key))

    def __setitem__(self, key: tuple[Any, ...], compiled: object) -> None:
        """Keep what was compiled."""
        self._compiled[_shared(key)] = compiled


def _shared(key: tuple[Any, ...]) -> object:
    dialect, *statement = key
    assert isinstance(dialect, Dialect)
    return (type(dialect), dialect.server_version_info, dialect.paramstyle, *statement)


def compile_once() -> None:
    """Let all engines of this process share one cache, also those that are not made yet."""
    cache = SharedCache()
    # Each engine makes one of its own, and sets it.
    shared = property(lambda _: cache, lambda _, own: None)
    Engine._compiled_cache = shared  # type: ignore[assignment]
