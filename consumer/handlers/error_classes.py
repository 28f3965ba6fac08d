"""Whether an error says that nothing happened and that another run may help. Pure.

A class in `never_retry` is never retried. Else the nearest class counts, as with `except`: of those
in `retry_on`, and of those that no second run can mend (validation, decoding, types) unless named
themselves. A code is that of `Rejected`, or of any error with such a `code`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from consumer.handlers.errors import EffectRefused, InDoubt
from feedback.foreign import attribute_of, plain_text

Declared = tuple[type[BaseException] | str, ...]

# pydantic's and json's errors and those of decoding are ValueErrors.
FATAL: tuple[type[BaseException], ...] = (TypeError, ValueError)
_LONGEST_CHAIN = 16


class DeclaredErrors(Protocol):
    """The errors that a handler declares; `follow_causes` looks at `raise … from …` as well."""

    @property
    def retry_on(self) -> Declared: ...
    @property
    def never_retry(self) -> Declared: ...
    @property
    def follow_causes(self) -> bool: ...


def is_retryable_code(code: str, rules: DeclaredErrors) -> bool:
    """Tell whether a rejection with this code is declared as one that another run may mend."""
    return code in rules.retry_on and code not in rules.never_retry


def is_retryable(error: BaseException, rules: DeclaredErrors) -> bool:
    """Tell whether an error, none of our own, is declared to say that nothing happened."""
    chain = list(_chain(error, follow=rules.follow_causes))
    if any(isinstance(one, (EffectRefused, InDoubt)) for one in chain):
        return False
    never = tuple(one for one in rules.never_retry if isinstance(one, type))
    if any(isinstance(one, never) or _code(one) in rules.never_retry for one in chain):
        return False
    for one in chain:
        declared = _declared(one, rules)
        if declared is not None:
            return declared
    return False


def _declared(error: BaseException, rules: DeclaredErrors) -> bool | None:
    """Return the verdict of the nearest class; None when none of its classes is declared."""
    if _code(error) in rules.retry_on:
        return True
    for kind in type(error).__mro__:
        if kind in rules.retry_on:
            return True
        if kind in FATAL:
            return False
    return None


def _code(error: BaseException) -> str | None:
    code = attribute_of(error, "code")
    return plain_text(code) if isinstance(code, str) else None


def _chain(error: BaseException, *, follow: bool) -> Iterator[BaseException]:
    # Only explicit causes: an error in whose handling another was raised says nothing about it.
    seen: set[int] = set()
    one: BaseException | None = error
    while one is not None and id(one) not in seen and len(seen) < _LONGEST_CHAIN:
        yield one
        seen.add(id(one))
        one = one.__cause__ if follow else None
