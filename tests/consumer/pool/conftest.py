"""Pools that are gone after the test."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.consumer.pool.driving import Driven, settings

MakePool = Callable[..., Driven]


@pytest.fixture
def make_pool() -> Iterator[MakePool]:
    """Return a factory of pools whose children are ready, unless `is_awaited=False`."""
    made: list[Driven] = []

    def make(*, is_awaited: bool = True, **changes: Any) -> Driven:
        chosen = settings(**changes)
        made.append(Driven(chosen))
        if is_awaited:
            made[-1].pids(chosen.processes)
        return made[-1]

    yield make
    for driven in made:
        driven.kill()
