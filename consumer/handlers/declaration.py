"""The options of a handler, and the check that refuses those that cannot be kept."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from consumer.handlers.backoff import Backoff
from consumer.handlers.checks.collapse import fault_of_collapse
from consumer.handlers.checks.retries import fault_of_retries
from consumer.handlers.checks.waits import fault_of_delivery
from consumer.handlers.dead_letters.declaring import OnError, fault_of_letters
from feedback.errors import SettingsError
from feedback.records.schemas import SchemaFile


def fault_of_order(handler: Handler) -> str | None:
    """Return a sentence that names the fault and its correction; None when there is none."""
    if handler.order == "key" and handler.retry_on and handler.retries is None:
        return (
            'order="key" with retry_on= needs retries=: without it only a resend runs such a '
            "failure again, and by then later requests of its key have run"
        )
    return None


_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_Choice = TypeVar("_Choice", bound=StrEnum)


class EffectKind(StrEnum):
    """Where doubt begins (docs: Effects and doubt).

    TRANSACTIONAL: never, its writes and the finish are one transaction. EXTERNAL: with the start,
    the whole run may be the effect. MARKED: at `with request.effect():`.
    """

    TRANSACTIONAL = "transactional"
    EXTERNAL = "external"
    MARKED = "marked"


class InDoubtPolicy(StrEnum):
    """Who decides about a run of which nobody knows whether it had its effect.

    PARK: a person. RETRY_SAME_KEY: the counterparty, by the idempotency key. QUERY: a function
    that asks the counterparty.
    """

    PARK = "park"
    RETRY_SAME_KEY = "retry_same_key"
    QUERY = "query"


class Order(StrEnum):
    """Which requests of a topic wait for one another.

    NONE: none. KEY: those of one key run one at a time in the order of their offsets, also while
    the first of them waits for its next run; other keys go on.
    """

    NONE = "none"
    KEY = "key"


class DeliveryKind(StrEnum):
    """When a record counts as read (docs: The guarantee).

    AT_MOST_ONCE: before it runs; who dies with it leaves it to its client. AT_LEAST_ONCE: when a
    wait record names it, so that another worker goes on with it. BATCH: when all that were read
    together have ended.
    """

    AT_MOST_ONCE = "at_most_once"
    AT_LEAST_ONCE = "at_least_once"
    BATCH = "batch"


class HandlerDefinitionError(SettingsError):
    """A handler is declared wrongly; `reason` names the correction.

    Args:
        name: the handler, as `module:qualname`.
        reason: one sentence.
    """

    entry = "error-handlerdefinitionerror"

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def __str__(self) -> str:
        return f"handler {self.name}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Handler:
    """A declaration; `name` is `module:qualname`, times are seconds, None is unlimited.

    Attributes:
        retry_on: errors and codes that say that nothing happened. never_retry: those that
            never do, even if `retry_on` has them. follow_causes: look at `raise … from …` as well.
        retries: when a run follows one that failed so; None: never by itself.
        retries_within_s: how long after the first failure the last of them may begin.
        blocking: tries within one run, before it counts as failed; None: none.
        blocking_within_s: how long after the run's beginning the last of them may begin.
        dead_letters_of: the topic whose dead letters it is given; `topic` is theirs then.
        on_error: the meaning of an error there; None elsewhere.
        order: which of its requests wait for one another.
        outcome_topic: where the record of how each of its requests ended goes; None: nowhere.
        schema: the JSON schema that the value must match, instead of `model`.
        delivery: when its records count as read.
        collapse: says of a request whether it may run in the stead of those that wait with it;
            None: each runs.
    """

    function: Callable[..., Any]
    topic: str
    name: str
    effect: EffectKind = EffectKind.EXTERNAL
    in_doubt: InDoubtPolicy = InDoubtPolicy.PARK
    query: Callable[..., Any] | None = None
    time_limit_s: float | None = None
    deadline_s: float | None = None
    model: type | None = None
    retry_on: tuple[type[BaseException] | str, ...] = ()
    is_coroutine: bool = False
    never_retry: tuple[type[BaseException] | str, ...] = ()
    follow_causes: bool = False
    retries: Backoff | None = None
    retries_within_s: float | None = None
    blocking: Backoff | None = None
    blocking_within_s: float = 0.5
    dead_letters_of: str | None = None
    on_error: OnError | None = None
    order: Order = Order.NONE
    outcome_topic: str | None = None
    schema: SchemaFile | None = None
    delivery: DeliveryKind = DeliveryKind.AT_MOST_ONCE
    collapse: Callable[..., Any] | None = None


def choose(kind: type[_Choice], value: str, *, name: str, setting: str) -> _Choice:
    """Return the member of `kind` that `value` names.

    Raises:
        HandlerDefinitionError: there is none; the sentence lists those that exist.
    """
    try:
        return kind(value)
    except ValueError:
        choices = ", ".join(f'"{choice}"' for choice in kind)
        raise HandlerDefinitionError(name, f"{setting}={value!r}: use one of {choices}") from None


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
        or fault_of_order(handler)
        or fault_of_delivery(handler)
        or fault_of_collapse(handler)
    )
    if fault:
        raise HandlerDefinitionError(handler.name, fault)


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
