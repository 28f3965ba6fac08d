"""The declaration of a lifespan, and its value in a test of a handler."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from consumer.handlers.lifespan import DECLARED_LIFESPANS, Lifespan, LifespanError, lifespan


@pytest.fixture(autouse=True)
def _undeclared(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in tuple(DECLARED_LIFESPANS):
        monkeypatch.delitem(DECLARED_LIFESPANS, name)


def _clients() -> Iterator[str]:
    yield "client"


async def _sessions() -> AsyncIterator[str]:
    yield "session"


def test_a_plain_one_and_a_coroutine_are_declared_in_their_order() -> None:
    declared = [lifespan(_clients), lifespan(_sessions)]
    assert list(DECLARED_LIFESPANS.values()) == declared
    assert [one.is_coroutine for one in declared] == [False, True]


def test_a_module_that_is_imported_again_replaces_its_own() -> None:
    lifespan(_clients)
    again: Lifespan[str] = lifespan(_clients)
    assert list(DECLARED_LIFESPANS.values()) == [again]


def test_without_a_child_a_value_is_an_error_that_names_the_way_of_a_test() -> None:
    declared = lifespan(_clients)
    with pytest.raises(RuntimeError, match=r"`with _clients\.using\(object\):`"):
        _ = declared.value
    with declared.using("fake"):
        assert declared.value == "fake"
    with pytest.raises(RuntimeError):
        _ = declared.value


def _returns() -> str:
    return "client"


def _takes(request: object) -> Iterator[str]:
    yield "client"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (_returns, "yields once"),
        (contextmanager(_clients), "no @contextmanager"),
        (_takes, "called without arguments"),
    ],
)
def test_another_function_is_refused(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(LifespanError, match=reason):
        lifespan(function)
    assert not DECLARED_LIFESPANS
