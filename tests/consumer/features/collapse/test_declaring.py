"""Declarations of `collapse=`, and what is refused of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from consumer.handlers.declaration import Handler, HandlerDefinitionError
from consumer.handlers.decorator import handler
from consumer.handlers.registry import DECLARED

_numbers = itertools.count()


def yes(request: object) -> bool:
    return True


async def yes_later(request: object) -> bool:
    return True


def yes_in_parts(request: object) -> Any:
    yield True


def yes_to_two(one: object, other: object) -> bool:
    return True


def _declare(**settings: Any) -> Handler:
    topic = f"collapsing-{next(_numbers)}"

    @handler(topic=topic, **settings)
    def book(request: object) -> None: ...

    found = DECLARED.for_topic(topic)
    assert found is not None
    return found


def test_a_handler_collapses_nothing_unless_it_says_so() -> None:
    assert _declare(order="key").collapse is None
    assert _declare(order="key", collapse=yes).collapse is yes


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, 'needs order="key"'),
        ({"order": "none"}, 'needs order="key"'),
        ({"order": "key", "delivery": "batch"}, 'Use delivery="at_most_once"'),
        ({"order": "key", "delivery": "at_least_once"}, 'Use delivery="at_most_once"'),
    ],
)
def test_it_is_refused_where_it_cannot_be_kept(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(HandlerDefinitionError, match=why):
        _declare(collapse=yes, **settings)


def test_it_is_refused_of_dead_letters() -> None:
    with pytest.raises(HandlerDefinitionError, match="each dead letter is a case of its own"):

        @handler(dead_letters_of="payments", order="key", collapse=yes)
        def look(request: object) -> None: ...


@pytest.mark.parametrize(
    ("predicate", "why"),
    [
        (True, "takes a function"),
        (yes_in_parts, "is a generator"),
        (yes_to_two, "one positional argument"),
        (yes_later, "write both alike"),
    ],
)
def test_a_predicate_that_cannot_answer_is_refused(predicate: Any, why: str) -> None:
    with pytest.raises(HandlerDefinitionError, match=why):
        _declare(order="key", collapse=predicate)


@pytest.mark.parametrize("predicate", [yes, yes_later])
def test_a_coroutine_takes_either_kind(predicate: Any) -> None:
    @handler(topic=f"collapsing-{next(_numbers)}", order="key", collapse=predicate)
    async def book(request: object) -> None: ...


@pytest.mark.parametrize(
    "settings",
    [
        {"retry_on": OSError, "retries": "1s x 2", "blocking": "20ms x 2"},
        {"effect": "transactional"},
        {"effect": "marked", "in_doubt": "retry_same_key"},
        {"in_doubt": "query", "query": yes},
        {"outcome_topic": "ends", "time_limit_s": 1.0},
    ],
)
def test_it_goes_with_everything_else(settings: dict[str, Any]) -> None:
    assert _declare(order="key", collapse=yes, **settings).collapse is yes
