"""All that a handler says of retries, as one value that several handlers share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace

from consumer.handlers.backoff import Backoff

Named = Iterable[type[BaseException] | str] | type[BaseException] | str

# The keywords of `@handler` that say the same.
_KEYWORDS = {"on": "retry_on", "never": "never_retry", "within_s": "retries_within_s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """Which failures run again, and when: `@handler(retries=RetryPolicy(...))`.

    >>> bank = RetryPolicy(on=("BANK_BUSY", ConnectionRefusedError), backoff="1s x 2, 5s x 2")

    Attributes:
        on: exceptions, and codes of `Rejected`, that promise nothing happened, as in `retry_on=`.
        backoff: tiers like `"1s x 2, 5s x 2"`, or a back-off, like `Exponential`. None: a client
            may have the failure run again.
        never: exceptions and codes that do not promise it, even where `on` has a wider class.
        follow_causes: also look at the error that an error was raised `from`.
        within_s: how long after its first failure a request may be run again.
        blocking: tries within the same run, before that; tiers or a back-off.
        blocking_within_s: how long after the run's beginning the last of them may begin.
    """

    on: Named
    backoff: Backoff | str | None = None
    never: Named = ()
    follow_causes: bool = False
    within_s: float | None = None
    blocking: Backoff | str | None = None
    blocking_within_s: float = 0.5

    def __post_init__(self) -> None:
        # Several handlers read them, and a generator is empty after the first.
        object.__setattr__(self, "on", named(self.on))
        object.__setattr__(self, "never", named(self.never))


def named(given: Named) -> tuple[type[BaseException] | str, ...]:
    """Return exceptions and codes that are given as one or as many.

    >>> named("BANK_BUSY")
    ('BANK_BUSY',)
    """
    # A text is iterable too, and a class may be.
    is_one = isinstance(given, (str, type)) or not isinstance(given, Iterable)
    return (given,) if is_one else tuple(given)  # type: ignore[arg-type,return-value]


_NOTHING = RetryPolicy(on=())


def policy_of(retries: RetryPolicy | Backoff | str | None, keywords: RetryPolicy) -> RetryPolicy:
    """Return the policy of a handler.

    Args:
        retries: a policy, or the back-off of one.
        keywords: the policy that the handler's other keywords make.

    Raises:
        ValueError: a policy and one of these keywords are given; the text says which.
    """
    if not isinstance(retries, RetryPolicy):
        return replace(keywords, backoff=retries)
    for field in fields(RetryPolicy):
        if getattr(keywords, field.name) != getattr(_NOTHING, field.name):
            keyword = _KEYWORDS.get(field.name, field.name)
            raise ValueError(
                f"{keyword}= beside retries=RetryPolicy(...): write {field.name}= in the policy"
            )
    return retries
