"""Whether a failed run is followed by another one, and after how long. Pure."""

from __future__ import annotations

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
