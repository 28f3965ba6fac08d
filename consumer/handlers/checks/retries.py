"""Refuses declarations of retries that could run twice, or would do nothing."""

from __future__ import annotations

import re

from consumer.handlers.backoff import Backoff, Tiers
from consumer.handlers.declaration import Handler
from consumer.handlers.errors import EffectRefused, InDoubt, Rejected

_CODE = re.compile(r"[A-Z][A-Z0-9_]{0,63}")
_BACKOFF = ("tries", "topic_delays_ms", "delay_ms")


def fault_of_retries(handler: Handler) -> str | None:
    """Return a sentence that names the fault and its correction; None when there is none."""
    return (
        _fault_of_names(handler, "retry_on")
        or _fault_of_names(handler, "never_retry")
        or _fault_of_meaning(handler)
        or _fault_of_contradiction(handler)
        or _fault_of_catch_all(handler)
        or _fault_of_backoff(handler)
        or _fault_of_times(handler)
    )


def _fault_of_names(handler: Handler, setting: str) -> str | None:
    declared: tuple[object, ...] = getattr(handler, setting)
    for one in declared:
        is_class = isinstance(one, type) and issubclass(one, BaseException)
        is_code = isinstance(one, str) and _CODE.fullmatch(one)
        if not (is_class or is_code):
            return (
                f"{setting} has {one!r}: name exception classes, like {setting}=(OSError,), "
                'or codes, like "BANK_BUSY"'
            )
    return None


def _fault_of_meaning(handler: Handler) -> str | None:
    for one in _classes(handler.retry_on):
        if issubclass(one, (InDoubt, EffectRefused)):
            return f"retry_on has {one.__name__}, which does not say that nothing happened"
        if issubclass(one, Rejected):
            return f'retry_on has {one.__name__}: name its codes instead, like "BANK_BUSY"'
    return None


def _fault_of_contradiction(handler: Handler) -> str | None:
    never = _classes(handler.never_retry)
    for one in handler.retry_on:
        covered = one in handler.never_retry
        if covered or (isinstance(one, type) and issubclass(one, never)):
            name = one if isinstance(one, str) else one.__name__
            return f"retry_on has {name}, which never_retry rules out: take it from one of them"
    return None


def _fault_of_catch_all(handler: Handler) -> str | None:
    """Refuse to hear "nothing happened" in every error where the effect may have happened."""
    is_protected = handler.effect == "transactional" or handler.in_doubt == "retry_same_key"
    for one in _classes(handler.retry_on):
        if one in (Exception, BaseException) and not is_protected:
            return (
                f"retry_on has {one.__name__}: after it the effect may have happened, and it would "
                'happen twice. Name the errors that exclude it, or declare effect="transactional" '
                'or in_doubt="retry_same_key"'
            )
    return None


def _fault_of_backoff(handler: Handler) -> str | None:
    for setting in ("retries", "blocking"):
        backoff: object = getattr(handler, setting)
        if backoff is None:
            continue
        if not all(hasattr(backoff, name) for name in _BACKOFF):
            return f'{setting}={backoff!r}: write tiers like "1s x 2, 5s x 2", or give a back-off'
        if not handler.retry_on:
            return f"{setting}= needs retry_on=, the errors that say that nothing happened"
    return None


def _fault_of_times(handler: Handler) -> str | None:
    within_s: object = handler.retries_within_s
    if within_s is not None and not _is_time(within_s):
        return f"retries_within_s={within_s!r}: give a positive number of seconds, or leave it out"
    if not _is_time(handler.blocking_within_s):
        return f"blocking_within_s={handler.blocking_within_s!r}: give a positive number of seconds"
    if handler.blocking is None or handler.time_limit_s is None:
        return None
    if handler.blocking_within_s >= handler.time_limit_s:
        return (
            f"blocking_within_s={handler.blocking_within_s:g} must be less than time_limit_s="
            f"{handler.time_limit_s:g}, which is for the whole run"
        )
    return None


def _is_time(value: object) -> bool:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return is_number and 0 < value < float("inf")  # type: ignore[operator]


def backoff_of(given: Backoff | str | None) -> Backoff | None:
    """Return the back-off that a declaration means.

    Raises:
        ValueError: the text names none.
    """
    return Tiers.parse(given) if isinstance(given, str) else given


def _classes(declared: tuple[type[BaseException] | str, ...]) -> tuple[type[BaseException], ...]:
    return tuple(one for one in declared if isinstance(one, type))
