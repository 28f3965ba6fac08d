"""The options of a handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

from consumer.handlers.backoff import Backoff
from feedback.errors import SettingsError
from feedback.records.schemas import SchemaFile

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


class OnError(StrEnum):
    """FAIL: the letter has FAILED, and is counted. RETRY: it runs again, later and without end."""

    FAIL = "fail"
    RETRY = "retry"


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
