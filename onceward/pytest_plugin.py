"""Fixtures for pytest, which finds them where Onceward is installed; unused they load nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from onceward.testing import Bench, MemoryClient


@pytest.fixture
def onceward_bench() -> Iterator[Callable[[Callable[..., Any]], Bench]]:
    """Return a function that makes a `Bench` of a handler; the test's end closes it."""
    from onceward.testing import Bench

    with ExitStack() as stack:
        yield lambda function: stack.enter_context(Bench(function))


@pytest.fixture
def onceward_client() -> Iterator[MemoryClient]:
    """Return a `MemoryClient` without handlers; the test's end closes it."""
    from onceward.testing import MemoryClient

    with MemoryClient() as client:
        yield client
