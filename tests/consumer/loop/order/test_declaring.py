"""Declarations of order, and what is refused of them."""

import itertools
from typing import Any

import pytest

from consumer.handlers.declaration import Handler, HandlerDefinitionError, Order
from consumer.handlers.decorator import handler
from consumer.handlers.registry import DECLARED as declared_handlers
from consumer.handlers.registry import HandlerRegistry

_numbers = itertools.count()


def _declare(**settings: Any) -> Handler:
    topic = f"ordering-{next(_numbers)}"

    @handler(topic=topic, **settings)
    def book(request: object) -> None: ...

    found = declared_handlers.for_topic(topic)
    assert found is not None
    return found


def test_a_handler_keeps_no_order_unless_it_says_so() -> None:
    assert _declare().order is Order.NONE
    assert _declare(order="none").order is Order.NONE
    assert _declare(order="key").order is Order.KEY


def test_another_order_is_refused_with_a_list_of_those_that_there_are() -> None:
    with pytest.raises(HandlerDefinitionError, match='use one of "none", "key"'):
        _declare(order="partition")


@pytest.mark.parametrize("blocking", [None, "20ms x 2"])
def test_order_is_refused_where_a_failure_would_run_again_behind_later_ones(
    blocking: str | None,
) -> None:
    with pytest.raises(HandlerDefinitionError, match="needs retries="):
        _declare(order="key", retry_on=OSError, blocking=blocking)


@pytest.mark.parametrize(
    "settings",
    [
        {"retry_on": OSError, "retries": "1s x 2"},
        {"retry_on": OSError, "retries": "1s x 2", "blocking": "20ms x 2"},
        {"effect": "transactional"},
        {"effect": "marked", "in_doubt": "retry_same_key"},
    ],
)
def test_order_goes_with_everything_else(settings: dict[str, Any]) -> None:
    declared = _declare(order="key", **settings)
    HandlerRegistry().add(declared)
    assert declared.order is Order.KEY
