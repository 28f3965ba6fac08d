"""The check of a handler's declaration: it refuses one that cannot be kept."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from consumer.handlers.checks.collapse import fault_of_collapse
from consumer.handlers.checks.retries import fault_of_retries
from consumer.handlers.checks.waits import fault_of_delivery
from consumer.handlers.dead_letters.declaring import fault_of_letters
from consumer.handlers.declaration import (
    EffectKind,
    Handler,
    HandlerDefinitionError,
    InDoubtPolicy,
)

_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def check(handler: Handler) -> None:
    """Accept a declaration that can be kept.

    Raises:
        HandlerDefinitionError: the first fault; the sentence names the correction.
    """
    fault = (
        _fault_of_function(handler)
        or _fault_of_choices(handler)
        or _fault_of_query(handler)
        or _fault_of_times(handler)
        or _fault_of_model(handler)
        or _fault_of_outcome_topic(handler)
        or fault_of_retries(handler)
        or fault_of_letters(handler)
        or _fault_of_order(handler)
        or fault_of_delivery(handler)
        or fault_of_collapse(handler)
    )
    if fault:
        raise HandlerDefinitionError(handler.name, fault)


def _fault_of_order(handler: Handler) -> str | None:
    if handler.order == "key" and handler.retry_on and handler.retries is None:
        return (
            'order="key" with retry_on= needs retries=: without it only a resend runs such a '
            "failure again, and by then later requests of its key have run"
        )
    return None


def _fault_of_function(handler: Handler) -> str | None:
    function = handler.function
    if isinstance(function, type) or not callable(function) or not _has_name(function):
        return "put @handler on a function"
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        return "a generator does no work when it is called: use return instead of yield"
    if not _takes_request(function):
        return "it must accept one positional argument, the request"
    return None


def _fault_of_choices(handler: Handler) -> str | None:
    of_letters = handler.dead_letters_of is not None
    setting = "dead_letters_of" if of_letters else "topic"
    topic: object = handler.dead_letters_of if of_letters else handler.topic
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        return f"{setting}={topic!r}: a topic has 1 to 249 of the characters a-z A-Z 0-9 . _ -"
    if handler.is_coroutine and handler.effect is EffectKind.TRANSACTIONAL:
        return 'effect="transactional" blocks on the journal: write def instead of async def'
    return None


def _fault_of_query(handler: Handler) -> str | None:
    if handler.in_doubt is not InDoubtPolicy.QUERY:
        if handler.query is None:
            return None
        return f'query= is only asked with in_doubt="query", not with "{handler.in_doubt}"'
    if not callable(handler.query):
        return 'in_doubt="query" needs query=, the function that asks the counterparty'
    if inspect.isgeneratorfunction(handler.query) or inspect.isasyncgenfunction(handler.query):
        return "query= is a generator, which asks nobody: use return instead of yield"
    if not _takes_request(handler.query):
        return "query= must accept one positional argument, the request"
    return None


def _fault_of_times(handler: Handler) -> str | None:
    times = {"time_limit_s": handler.time_limit_s, "deadline_s": handler.deadline_s}
    for setting, value in times.items():
        if value is None:
            continue
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not 0 < value < float("inf"):
            return f"{setting}={value!r}: give a positive number of seconds, or leave it out"
    return None


def _fault_of_model(handler: Handler) -> str | None:
    if handler.model is not None and not hasattr(handler.model, "model_validate_json"):
        return f"model={handler.model!r}: give a pydantic model class"
    if handler.model is not None and handler.schema is not None:
        return "give model= or schema=, not both: each says what a value is"
    return None


def _fault_of_outcome_topic(handler: Handler) -> str | None:
    topic: object = handler.outcome_topic
    if topic is None:
        return None
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic):
        return f"outcome_topic={topic!r}: a topic has 1 to 249 of the characters a-z A-Z 0-9 . _ -"
    if topic == handler.topic:
        return "outcome_topic= is its own topic: each outcome would be its next request"
    return None


def _takes_request(function: Callable[..., Any]) -> bool:
    try:
        inspect.signature(function).bind(object())
    except (TypeError, ValueError):
        return False
    return True


def _has_name(function: object) -> bool:
    return hasattr(function, "__qualname__") and hasattr(function, "__module__")
