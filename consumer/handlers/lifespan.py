"""`@lifespan`: an object that all runs of a child share, like a client or a pool of connections.

Read in every child, so nothing heavy is imported here. `consumer.pool.lifespans` enters and leaves.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    asynccontextmanager,
    contextmanager,
)
from typing import Any, Generic, TypeVar

from feedback.errors import SettingsError

Shared = TypeVar("Shared")
_NOTHING: Any = object()


class LifespanError(SettingsError):
    """A lifespan is declared wrongly, or its start failed.

    Args:
        name: the lifespan, as `module:qualname`.
        reason: one sentence, or the class and text of its error.
    """

    entry = "error-lifespanerror"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"lifespan {self.name}: {self.reason}"


class Lifespan(Generic[Shared]):
    """A declared lifespan; `value` is the object that it yielded.

    Attributes:
        name: `module:qualname`.
        is_coroutine: whether it is entered and left on the child's event loop.
    """

    def __init__(self, function: Callable[[], Any], *, name: str, is_coroutine: bool) -> None:
        self.name = name
        self.is_coroutine = is_coroutine
        self._function = function
        self._value: Shared = _NOTHING

    @property
    def value(self) -> Shared:
        """The object that the function yielded, the same for all runs of this child.

        Raises:
            RuntimeError: the lifespan has not begun in this process, or is over.
        """
        if self._value is _NOTHING:
            short = self.name.rpartition(":")[2]
            raise RuntimeError(
                f"lifespan {self.name} has no value here: a worker's child enters it before its "
                f"first run. In a test write `with {short}.using(object):`"
            )
        return self._value

    @contextmanager
    def using(self, value: Shared) -> Iterator[Shared]:
        """Let `value` be this object within the block, as in a test without a worker."""
        before, self._value = self._value, value
        try:
            yield value
        finally:
            self._value = before

    def open(self) -> AbstractContextManager[Shared]:
        """Return the context of a plain function."""
        return contextmanager(self._function)()

    def open_async(self) -> AbstractAsyncContextManager[Shared]:
        """Return the context of an `async def`."""
        return asynccontextmanager(self._function)()


# Those of all imported modules by name, in the order of their declaration.
DECLARED_LIFESPANS: dict[str, Lifespan[Any]] = {}


def lifespan(
    function: Callable[[], AsyncIterator[Shared]] | Callable[[], Iterator[Shared]],
) -> Lifespan[Shared]:
    """Enter the function in each child before its first run, and leave it after the last one.

    The function yields once, as one for `contextlib.contextmanager` does; handlers read the object
    from `value`. An `async def` runs on the loop of the child's coroutines, a plain function on the
    child's main thread. Lifespans begin in the order of their declaration and end in reverse.

    An error before the yield is a failed start of the child. After the yield there are 3 s for all
    lifespans of a child together. A child that is killed runs nothing of that: nothing that must
    happen may stand there.

    >>> @lifespan
    ... def words() -> Iterator[list[str]]:
    ...     yield ["one"]
    >>> with words.using(["two"]):
    ...     words.value
    ['two']

    Raises:
        LifespanError: it is no generator function without arguments.
    """
    name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
    is_coroutine = inspect.isasyncgenfunction(function)
    if not is_coroutine and not inspect.isgeneratorfunction(function):
        raise LifespanError(
            name, "put @lifespan, and no @contextmanager, on a function that yields once"
        )
    if inspect.signature(function).parameters:
        raise LifespanError(name, "it is called without arguments")
    declared: Lifespan[Shared] = Lifespan(function, name=name, is_coroutine=is_coroutine)
    DECLARED_LIFESPANS[name] = declared
    return declared
