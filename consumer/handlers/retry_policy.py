"""All that a handler says of retries, as one value that several handlers share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from random import Random

from consumer.handlers.backoff import Backoff


def next_delay_ms(
    backoff: Backoff,
    *,
    retried: int,
    failing_ms: int,
    left_ms: int,
    within_ms: int | None,
    random: Random,
) -> int | None:
    """Return the milliseconds until the next run; None when the last one was the last.

    Args:
        retried: how many runs of this attempt have failed before this one and were retried.
        failing_ms: how long ago the first of them failed.
        left_ms: until the request's deadline: no run begins at or after it.
        within_ms: how long after the first failure the last run may begin; None: no limit.

    >>> from consumer.handlers.backoff import Tiers
    >>> tiers, dice = Tiers.parse("1s x 2, 5s x 2"), Random(0)
    >>> facts = {"failing_ms": 0, "left_ms": 60_000, "within_ms": None, "random": dice}
    >>> [next_delay_ms(tiers, retried=count, **facts) for count in range(5)]
    [1000, 1000, 5000, 5000, None]
    """
    if retried >= backoff.tries:
        return None
    delay_ms = backoff.delay_ms(retried + 1, random)
    if delay_ms >= left_ms:
        return None
    if within_ms is not None and failing_ms + delay_ms > within_ms:
        return None
    return delay_ms


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
        object.__setattr__(self, "on", errors_of(self.on))
        object.__setattr__(self, "never", errors_of(self.never))


def errors_of(given: Named) -> tuple[type[BaseException] | str, ...]:
    """Return exceptions and codes that are given as one or as many.

    >>> errors_of("BANK_BUSY")
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
