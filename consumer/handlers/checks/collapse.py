"""Refuses declarations of `collapse=` that cannot be kept, or make no sense."""

from __future__ import annotations

import inspect

from consumer.handlers.declaration import Handler


def fault_of_collapse(handler: Handler) -> str | None:
    """Return a sentence that names the fault and its correction; None when there is none."""
    predicate: object = handler.collapse
    if predicate is None:
        return None
    if not callable(predicate):
        return "collapse= takes a function of the request that returns whether it is to run"
    if handler.order != "key":
        return 'collapse= needs order="key": it is requests of one key that collapse'
    if handler.dead_letters_of is not None:
        return "collapse= is for requests: each dead letter is a case of its own"
    if handler.delivery != "at_most_once":
        return (
            f'collapse= with delivery="{handler.delivery}": what ends in another\'s stead is only '
            'kept by the journal\'s row. Use delivery="at_most_once"'
        )
    return _fault_of_function(handler)


def is_coroutine(predicate: object) -> bool:
    """Whether calling it returns an awaitable."""
    return inspect.iscoroutinefunction(predicate) or inspect.iscoroutinefunction(
        getattr(predicate, "__call__", None)  # noqa: B004 - an object with `async def __call__`
    )


def _fault_of_function(handler: Handler) -> str | None:
    predicate = handler.collapse
    if inspect.isgeneratorfunction(predicate) or inspect.isasyncgenfunction(predicate):
        return "collapse= is a generator, which answers nothing: use return instead of yield"
    if predicate is not None:
        try:
            inspect.signature(predicate).bind(object())
        except (TypeError, ValueError):
            return "collapse= must accept one positional argument, the request"
    if is_coroutine(predicate) and not handler.is_coroutine:
        return "collapse= is async def beside a plain handler: write both alike"
    return None
