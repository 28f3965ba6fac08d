"""Declaring handlers: what is refused, and what they may raise."""

import asyncio
import itertools
import pickle
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from consumer.handlers.checks.handler_check import check
from consumer.handlers.declaration import (
    EffectKind,
    Handler,
    HandlerDefinitionError,
    InDoubtPolicy,
)
from consumer.handlers.decorator import handler
from consumer.handlers.errors import EffectRefused, InDoubt, Rejected
from consumer.handlers.registry import HandlerImportError, HandlerRegistry
from feedback.errors import SettingsError

_numbers = itertools.count()


def _topic() -> str:
    return f"handlers-test-{next(_numbers)}"


class Payment(BaseModel):
    """A payload."""

    amount: int


def _plain(request: object) -> None: ...
async def _coroutine(request: object) -> None: ...
def _no_argument() -> None: ...
def _two_arguments(request: object, other: object) -> None: ...
def _by_name(*, request: object) -> None: ...
def _optional(request: object, other: object = None, *rest: object) -> None: ...
def _generator(request: object) -> Iterator[int]:
    yield 1


async def _async_generator(request: object) -> AsyncIterator[int]:
    yield 1


def test_a_function_stays_callable_as_it_was() -> None:
    def add(left: Any, right: int = 1) -> int:
        return int(left) + right

    registered = handler(topic=_topic())(add)
    assert registered is add
    assert registered(1, right=2) == 3


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"effect": "sometimes"}, '"transactional", "external", "marked"'),
        ({"in_doubt": "forget"}, '"park", "retry_same_key", "query"'),
        ({"topic": ""}, "1 to 249"),
        ({"topic": "a/b"}, "1 to 249"),
        ({"topic": "a\n"}, "1 to 249"),
        ({"topic": "x" * 250}, "1 to 249"),
        ({"topic": None}, "give topic="),
        ({"in_doubt": "query"}, "needs query="),
        ({"in_doubt": "query", "query": "ask"}, "needs query="),
        ({"query": _plain}, 'in_doubt="query"'),
        ({"time_limit_s": 0}, "time_limit_s=0"),
        ({"time_limit_s": "5"}, "time_limit_s='5'"),
        ({"deadline_s": -1}, "deadline_s=-1"),
        ({"deadline_s": float("nan")}, "deadline_s=nan"),
        ({"deadline_s": True}, "deadline_s=True"),
        ({"retry_on": (OSError, "ValueError")}, "name exception classes"),
        ({"retry_on": (OSError(),)}, "name exception classes"),
        ({"retry_on": int}, "name exception classes"),
        ({"model": dict}, "pydantic model"),
    ],
)
def test_a_declaration_that_cannot_be_kept_is_refused_with_what_to_write(
    changes: dict[str, Any], told: str
) -> None:
    with pytest.raises(HandlerDefinitionError) as refused:
        handler(**{"topic": _topic(), **changes})(_plain)
    assert told in str(refused.value)
    assert "_plain" in str(refused.value)
    assert isinstance(refused.value, SettingsError)
    assert refused.value.exit_code == 2


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (_no_argument, "one positional argument"),
        (_two_arguments, "one positional argument"),
        (_by_name, "one positional argument"),
        (_generator, "generator"),
        (_async_generator, "generator"),
        (Payment, "on a function"),
        (5, "on a function"),
    ],
)
def test_what_cannot_be_called_with_a_request_is_refused(function: Any, told: str) -> None:
    with pytest.raises(HandlerDefinitionError, match=told):
        handler(topic=_topic())(function)


def test_a_coroutine_cannot_be_transactional() -> None:
    with pytest.raises(HandlerDefinitionError, match="instead of async def"):
        handler(topic=_topic(), effect="transactional")(_coroutine)


def test_a_topic_has_one_handler() -> None:
    topic = _topic()
    handler(topic=topic)(_plain)
    with pytest.raises(HandlerDefinitionError, match=f"{topic}.* already has .*:_plain"):
        handler(topic=topic)(_optional)


def test_two_functions_of_one_name_cannot_share_a_topic_either() -> None:
    def declare(topic: str) -> Callable[..., None]:
        @handler(topic=topic)
        def charge(request: object) -> None: ...

        return charge

    topic = _topic()
    declare(topic)
    with pytest.raises(HandlerDefinitionError, match="already has"):
        declare(topic)


def test_a_declaration_keeps_everything_that_was_said() -> None:
    registry = HandlerRegistry()
    registry.add(
        Handler(
            function=_coroutine,
            topic="payments",
            name="m:f",
            effect=EffectKind.MARKED,
            in_doubt=InDoubtPolicy.QUERY,
            query=_plain,
            time_limit_s=30,
            deadline_s=3600,
            model=Payment,
            retry_on=(OSError, asyncio.CancelledError),
            is_coroutine=True,
        )
    )
    assert registry.topics == ("payments",)
    found = registry.for_topic("payments")
    assert found is not None and found.model is Payment
    assert registry.for_topic("refunds") is None


def test_optional_arguments_beside_the_request_are_fine() -> None:
    check(Handler(function=_optional, topic="a", name="m:f"))


@pytest.mark.parametrize("code", ["", "lower", "1ST", "A" * 65, "A-B", "A\n"])
def test_a_rejection_needs_a_stable_code(code: str) -> None:
    with pytest.raises(ValueError, match="upper case"):
        Rejected(code, "why")


@pytest.mark.parametrize(
    "error",
    [
        Rejected("CARD_EXPIRED", "why"),
        InDoubt("who knows"),
        EffectRefused("r1", 2),
        HandlerDefinitionError("m:f", "why"),
        HandlerImportError("m", "why"),
    ],
)
def test_errors_keep_their_attributes_when_they_are_pickled(error: Exception) -> None:
    copy = pickle.loads(pickle.dumps(error))
    assert (type(copy), str(copy), vars(copy)) == (type(error), str(error), vars(error))
