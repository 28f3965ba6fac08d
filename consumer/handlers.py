"""What a user's module speaks to: `@handler`, what a handler may raise, and the registry.

Imported in every child, so nothing heavy is imported here. A declaration is checked when it is
read (`consumer.declaration`): a worker with a wrong one does not start.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from consumer.declaration import (
    EffectKind,
    Handler,
    HandlerDefinitionError,
    InDoubtPolicy,
    check,
    choose,
)
from consumer.retries.backoff import Backoff
from consumer.retries.checks import backoff_of
from feedback.errors import SettingsError

__all__ = [
    "EffectKind",
    "EffectRefused",
    "Handler",
    "HandlerDefinitionError",
    "HandlerImportError",
    "InDoubt",
    "InDoubtPolicy",
    "Registry",
    "Rejected",
    "handler",
]

Function = TypeVar("Function", bound=Callable[..., Any])
Named = Iterable[type[BaseException] | str] | type[BaseException] | str

_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")


class HandlerImportError(SettingsError):
    """A module of handlers could not be used.

    Args:
        module: its dotted name.
        cause: one line: the class and text of what it raised, or what is missing in it.
    """

    def __init__(self, module: str, cause: str) -> None:
        super().__init__(module, cause)
        self.module = module
        self.cause = cause

    def __str__(self) -> str:
        return f"cannot use handlers from {self.module!r}: {self.cause}"


class Rejected(Exception):
    """Raised by a handler: the request is refused for good, nothing was done.

    Args:
        code: the handler's own stable code, `[A-Z][A-Z0-9_]{0,63}`.
        message: one sentence for the client, without the payload.

    Raises:
        ValueError: the code is not of that form.
    """

    def __init__(self, code: str, message: str = "") -> None:
        if not _CODE.fullmatch(code):
            raise ValueError(f"a code is upper case like CARD_EXPIRED, not {code[:64]!r}")
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class InDoubt(Exception):
    """Raised by a handler: the counterparty may have acted, and the handler cannot know.

    Args:
        message: one sentence for the person who will decide, without the payload.
    """

    def __init__(self, message: str = "") -> None:
        super().__init__(message)
        self.message = message


class EffectRefused(Exception):
    """Raised by `request.effect()`: the claim is no longer ours, so nothing may be called.

    However the handler ends after this, the run's outcome no longer counts and is not written:
    the request belongs to a newer claim or already has its outcome.

    Args:
        request_id: the request.
        generation: the claim that was lost.
    """

    def __init__(self, request_id: str, generation: int) -> None:
        super().__init__(request_id, generation)
        self.request_id = request_id
        self.generation = generation

    def __str__(self) -> str:
        return f"claim {self.generation} of request {self.request_id} is no longer ours"


def handler(
    *,
    topic: str,
    effect: str = EffectKind.EXTERNAL,
    in_doubt: str = InDoubtPolicy.PARK,
    query: Callable[..., Any] | None = None,
    time_limit_s: float | None = None,
    deadline_s: float | None = None,
    model: type | None = None,
    retry_on: Named = (),
    never_retry: Named = (),
    follow_causes: bool = False,
    retries: Backoff | str | None = None,
    retries_within_s: float | None = None,
    blocking: Backoff | str | None = None,
    blocking_within_s: float = 0.5,
) -> Callable[[Function], Function]:
    """Make the function the handler of `topic`; it stays callable as it was (contract, section 9).

    Args:
        topic: the Kafka topic; it has one handler.
        effect: `external` (the whole run may be the effect), `marked` or `transactional`.
        in_doubt: `park`, `retry_same_key` or `query`.
        query: with `in_doubt="query"`: asks the counterparty; returns Happened, Voided or Unknown.
        time_limit_s: how long one run may take.
        deadline_s: how long after its record's timestamp a request without a deadline may start.
        model: a pydantic model; the value is validated before the claim.
        retry_on: exceptions, and codes of `Rejected`, that promise nothing happened, so that
            another run is safe. Of an external handler too: it is taken at its word.
        never_retry: exceptions and codes that do not, even where `retry_on` has a wider class.
            Errors of validation, decoding and types never do, unless `retry_on` names them.
        follow_causes: also look at what an error was raised `from`.
        retries: when such a failure is run again, after its slot was given to others: tiers like
            `"1s x 2, 5s x 2"`, or a back-off of `consumer.retries`. None: a resend runs it again.
        retries_within_s: how long after its first failure a request may be run again.
        blocking: when such a failure is tried again at once, within the same run, before that.
        blocking_within_s: how long after the run's beginning it may be tried again so.

    Raises:
        HandlerDefinitionError: the declaration cannot be kept; the sentence says why.
    """

    def register(function: Function) -> Function:
        name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"
        try:
            backoffs = backoff_of(retries), backoff_of(blocking)
        except ValueError as error:
            raise HandlerDefinitionError(name, str(error)) from None
        _declared.add(
            Handler(
                function=function,
                topic=topic,
                name=name,
                effect=choose(EffectKind, effect, name=name, setting="effect"),
                in_doubt=choose(InDoubtPolicy, in_doubt, name=name, setting="in_doubt"),
                query=query,
                time_limit_s=time_limit_s,
                deadline_s=deadline_s,
                model=model,
                retry_on=_named(retry_on),
                never_retry=_named(never_retry),
                follow_causes=follow_causes,
                retries=backoffs[0],
                retries_within_s=retries_within_s,
                blocking=backoffs[1],
                blocking_within_s=blocking_within_s,
                is_coroutine=inspect.iscoroutinefunction(function),
            )
        )
        return function

    return register


class Registry:
    """The handlers of a worker, one for each topic."""

    def __init__(self) -> None:
        self._by_topic: dict[str, Handler] = {}

    @property
    def topics(self) -> tuple[str, ...]:
        """All topics that have a handler, in order."""
        return tuple(sorted(self._by_topic))

    @property
    def handlers(self) -> tuple[Handler, ...]:
        """All handlers, in the order of their topics."""
        return tuple(self._by_topic[topic] for topic in self.topics)

    def for_topic(self, topic: str) -> Handler | None:
        """Return the topic's handler, None when it has none."""
        return self._by_topic.get(topic)

    def add(self, handler: Handler) -> None:
        """Take the handler in; the same definition read again replaces its first reading.

        Raises:
            HandlerDefinitionError: it cannot be kept, or its topic has another handler.
        """
        check(handler)
        known = self._by_topic.get(handler.topic)
        if known is not None and not _same_definition(known, handler):
            fault = f"topic {handler.topic!r} already has {known.name}: a topic has one handler"
            raise HandlerDefinitionError(handler.name, fault)
        self._by_topic[handler.topic] = handler

    @classmethod
    def load(cls, modules: Sequence[str]) -> Registry:
        """Import the modules and return the handlers that they declare, or import from elsewhere.

        The current folder is importable, as with other workers.

        Args:
            modules: dotted names.

        Raises:
            HandlerImportError: a module cannot be imported, or there is no handler in any.
        """
        folder = str(Path.cwd())
        if folder not in sys.path:
            sys.path.insert(0, folder)
        registry = cls()
        for module in modules:
            for found in _import(module):
                registry.add(found)
        if not registry.topics:
            named = ", ".join(modules) or "worker.handlers"
            raise HandlerImportError(named, "no function there has @handler(topic=...)")
        return registry


def _named(given: Named) -> tuple[type[BaseException] | str, ...]:
    # A text is iterable too, and a class may be.
    is_one = isinstance(given, (str, type)) or not isinstance(given, Iterable)
    return (given,) if is_one else tuple(given)  # type: ignore[arg-type,return-value]


_declared = Registry()
# The topics that each module brought when first imported: a second load cannot see that again.
_brought: dict[str, set[str]] = {}


def _import(module: str) -> list[Handler]:
    before = set(_declared.handlers)
    try:
        home = importlib.import_module(module).__name__
    except (Exception, SystemExit) as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())
        raise HandlerImportError(module, cause[:500]) from error
    topics = _brought.setdefault(module, set())
    topics.update(h.topic for h in _declared.handlers if h not in before or _lives_in(h, home))
    return [known for known in _declared.handlers if known.topic in topics]


def _lives_in(known: Handler, module: str) -> bool:
    home = str(known.function.__module__)
    return home == module or home.startswith(module + ".")


def _same_definition(known: Handler, new: Handler) -> bool:
    """Tell a module that is imported again from two functions that want one topic."""
    if known.name != new.name:
        return False
    namespaces = [getattr(each.function, "__globals__", None) for each in (known, new)]
    return known.function is new.function or namespaces[0] is not namespaces[1]
