"""Exceptions and classes of a user that do the worst when they are asked, for hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from consumer.handlers.errors import EffectRefused, InDoubt, Rejected

Parts = dict[str, Any]


class Text(str):
    """A text that refuses everything."""

    def __getitem__(self, key: Any) -> str:
        raise OSError("no")

    def __eq__(self, other: object) -> bool:
        raise OSError("no")

    def __hash__(self) -> int:
        raise OSError("no")

    def __str__(self) -> str:
        raise OSError("no")


def _raising(error: BaseException) -> Any:
    def get(self: object) -> Any:
        raise error

    return property(get)


def _calling(what: Any) -> Callable[..., Any]:
    def call(self: object, *args: Any, **kwargs: Any) -> Any:
        if isinstance(what, BaseException):
            raise what
        return what

    return call


ERRORS = st.sampled_from([OSError("no"), SystemExit(3), KeyboardInterrupt(), RecursionError("no")])
VALUES = st.one_of(
    st.none(),
    st.integers(),
    st.text(),
    st.binary(),
    st.builds(Text, st.text()),
    st.lists(st.text(), max_size=2),
    st.builds(object),
)
_ATTRIBUTES = st.one_of(VALUES, ERRORS.map(_raising))
_METHODS = st.one_of(VALUES, ERRORS).map(_calling)
_PARTS: st.SearchStrategy[Parts] = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("message", "code", "errors", "__cause__", "__context__"), _ATTRIBUTES),
        **dict.fromkeys(("__module__", "__suppress_context__", "__traceback__"), _ATTRIBUTES),
        **dict.fromkeys(("__str__", "__repr__", "errors "), _METHODS),
        "__class__": ERRORS.map(_raising),
    },
)
_META: st.SearchStrategy[Parts] = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("__name__", "__module__", "__mro__"), ERRORS.map(_raising)),
        "__getattribute__": ERRORS.map(_calling),
    },
)
BASES = (ValueError, ConnectionResetError, Exception, SystemExit, Rejected, InDoubt, EffectRefused)


def _make(base: type[BaseException], parts: Parts, meta: Parts, name: str) -> BaseException:
    parts = {key.strip(): part for key, part in parts.items()}
    kind: type[BaseException] = type("Meta", (type,), meta)(name, (base,), parts)
    # As of a subclass that does not call the class above it.
    return base.__new__(kind)


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=40)


def exceptions(*bases: type[BaseException]) -> st.SearchStrategy[BaseException]:
    """Return a strategy of exceptions that are of one of these classes, or of any."""
    return st.builds(_make, st.sampled_from(bases or BASES), _PARTS, _META, NAMES)
