"""The interface for a user's module: `@handler`, and the errors that a handler may raise.

Imported in every child, so nothing heavy is imported here. A declaration is checked when it is
read (`consumer.handlers.checks`): a worker with a wrong one does not start.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from consumer.handlers.backoff import Backoff
from consumer.handlers.checks.retries import backoff_of
from consumer.handlers.dead_letters.declaring import placeholder
from consumer.handlers.declaration import (
    DeliveryKind,
    EffectKind,
    Handler,
    HandlerDefinitionError,
    InDoubtPolicy,
    OnError,
    Order,
    choose,
)
from consumer.handlers.query_result import QueryResult
from consumer.handlers.registry import DECLARED
from consumer.handlers.request import Request
from consumer.handlers.retry_policy import Named, RetryPolicy, errors_of, policy_of
from feedback.records.schemas import SchemaFile

Json = Mapping[Any, Any] | list[Any] | tuple[Any, ...] | str | int | float | None
Answered = QueryResult | Literal["happened", "voided", "unknown"] | tuple[Literal["happened"], Any]
# Of the request alone, as a plain function or a coroutine: a type checker refuses any other.
Function = TypeVar("Function", bound=Callable[[Request], Json | Awaitable[Json]])
Query = Callable[[Request], Answered | Awaitable[Answered]]
DeliveryMode = DeliveryKind | Literal["at_most_once", "at_least_once", "batch"]
Predicate = Callable[[Request], object]


def handler(
    *,
    topic: str | None = None,
    dead_letters_of: str | None = None,
    on_error: OnError | Literal["fail", "retry"] | None = None,
    effect: EffectKind | Literal["external", "marked", "transactional"] = "external",
    in_doubt: InDoubtPolicy | Literal["park", "retry_same_key", "query"] = "park",
    query: Query | None = None,
    time_limit_s: float | None = None,
    deadline_s: float | None = None,
    model: type | None = None,
    retry_on: Named = (),
    never_retry: Named = (),
    follow_causes: bool = False,
    retries: RetryPolicy | Backoff | str | None = None,
    retries_within_s: float | None = None,
    blocking: Backoff | str | None = None,
    blocking_within_s: float = 0.5,
    order: Order | Literal["none", "key"] = "none",
    outcome_topic: str | None = None,
    schema: str | Path | None = None,
    delivery: DeliveryMode = "at_most_once",
    collapse: Predicate | None = None,
) -> Callable[[Function], Function]:
    """Make the function the handler of `topic`; it stays callable (docs: Effects and doubt).

    Args:
        topic: the Kafka topic; it has one handler.
        dead_letters_of: instead of `topic`: the topic whose dead letters it is given, those of this
            group; `request.dead_letter` says why it failed.
        on_error: of such a handler: `fail` (default: counted, and no more) or `retry` (every error
            says that another run does no harm: it runs again, later and without end).
        effect: `external` (the whole run may be the effect), `marked` or `transactional`.
        in_doubt: `park`, `retry_same_key` or `query`.
        query: with `in_doubt="query"`: asks the counterparty; returns Happened, Voided or Unknown.
        time_limit_s: how long one run may take.
        deadline_s: how long after its record's timestamp a request without a deadline may start.
        model: a pydantic model; the value is validated before the claim.
        retry_on: exceptions, and codes of `Rejected`, that promise nothing happened, so that
            another run is safe. Of an external handler too: it is taken at its word. So name
            `ConnectionRefusedError`, which reached nobody, and not `ConnectionError`, which is
            also the reset that comes after the counterparty acted.
        never_retry: exceptions and codes that do not, even where `retry_on` has a wider class.
            Errors of validation, decoding and types never do, unless `retry_on` names them.
        follow_causes: also look at the error that an error was raised `from`.
        retries: when such a failure is run again, after its slot was given to others: tiers like
            `"1s x 2, 5s x 2"`, or a back-off, like `Exponential`. None: its client may have it
            run again. A `RetryPolicy` holds this and the other six keywords of retries, for
            handlers that share them.
        retries_within_s: how long after its first failure a request may be run again.
        blocking: when such a failure is tried again at once, within the same run, before that.
        blocking_within_s: how long after the run's beginning it may be tried again so.
        order: `none`, or `key`: requests of one key run one at a time, in offset order.
        outcome_topic: a Kafka topic; how each request ended goes there, see
        `consumer.features.outcomes`.
        schema: a JSON Schema file instead of a model, beside the handler's own file or absolute.
        delivery: `at_most_once`; `at_least_once` (nothing is lost though no client waits, see
            `consumer.features.waits`); or `batch` (read some, run all, and only then read on).
        collapse: with `order="key"`: a function of the request. Of those of one key that wait
            together, the first for which it returns true runs; once it has succeeded the others
            end SKIPPED. One for which it returns false ends SKIPPED at once, see
            `consumer.features.collapse`.

    Raises:
        HandlerDefinitionError: the declaration cannot be kept; the sentence says why.
    """

    keywords = RetryPolicy(
        on=retry_on,
        never=never_retry,
        follow_causes=follow_causes,
        within_s=retries_within_s,
        blocking=blocking,
        blocking_within_s=blocking_within_s,
    )

    def register(function: Function) -> Function:
        name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
        if (topic is None) is (dead_letters_of is None):
            raise HandlerDefinitionError(name, "give topic= or dead_letters_of=, and not both")
        try:
            policy = policy_of(retries, keywords)
            backoffs = backoff_of(policy.backoff), backoff_of(policy.blocking)
        except ValueError as error:
            raise HandlerDefinitionError(name, str(error)) from None
        DECLARED.add(
            Handler(
                function=function,
                topic=placeholder(dead_letters_of) if topic is None else topic,
                name=name,
                effect=choose(EffectKind, effect, name=name, setting="effect"),
                in_doubt=choose(InDoubtPolicy, in_doubt, name=name, setting="in_doubt"),
                query=query,
                time_limit_s=time_limit_s,
                deadline_s=deadline_s,
                model=model,
                retry_on=errors_of(policy.on),
                never_retry=errors_of(policy.never),
                follow_causes=policy.follow_causes,
                retries=backoffs[0],
                retries_within_s=policy.within_s,
                blocking=backoffs[1],
                blocking_within_s=policy.blocking_within_s,
                order=choose(Order, order, name=name, setting="order"),
                delivery=choose(DeliveryKind, delivery, name=name, setting="delivery"),
                collapse=collapse,
                outcome_topic=outcome_topic,
                schema=None if schema is None else SchemaFile(_home(function) / schema),
                is_coroutine=inspect.iscoroutinefunction(function),
                dead_letters_of=dead_letters_of,
                on_error=_on_error(on_error, dead_letters_of, name),
            )
        )
        return function

    return register


def _home(function: Callable[..., Any]) -> Path:
    """Return the folder of the file that a function is defined in."""
    file = getattr(sys.modules.get(function.__module__), "__file__", None)
    return Path.cwd() if file is None else Path(file).resolve().parent


def _on_error(given: str | None, dead_letters_of: str | None, name: str) -> OnError | None:
    if given is None:
        return None if dead_letters_of is None else OnError.FAIL
    return choose(OnError, given, name=name, setting="on_error")
