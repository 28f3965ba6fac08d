"""A handler dies at every point, is sent again and comes twice: nothing may happen twice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onceward.testing.bench import Bench
from onceward.testing.counterparty import Counterparty
from onceward.testing.deaths import NeverReached, Point
from producer_client.submission import Value


class RanTwice(AssertionError):
    """Something happened twice; the text says after which death."""


def assert_safe(
    function: Callable[..., Any], value: Value = None, *, effects: Counterparty
) -> None:
    """Die at every point of a handler, send again, come twice, and count.

    Args:
        function: with `@handler`; it calls `effects`.
        effects: the counterparty; it is as new before each case.

    Raises:
        RanTwice: it acted more than once for one request.
        NeverReached: the handler does not call it.
    """
    faults = [told for point in (None, *Point) if (told := _fault(function, value, effects, point))]
    if faults:
        raise RanTwice("; ".join(faults))


def _fault(
    function: Callable[..., Any], value: Value, effects: Counterparty, point: Point | None
) -> str | None:
    effects.forget()
    with Bench(function) as bench:
        if point is not None:
            bench.die(point)
        first = bench.run(value, request_id="r", duplicates=1)
        bench.run(value, request_id="r", attempt=2)
    if point is None and not effects.calls:
        raise NeverReached(f"{bench.handler.name} never called its counterparty")
    if effects.times_acted <= 1:
        return None
    where = "without a death" if point is None else f"after its child died {point}"
    policy = bench.handler.in_doubt
    return (
        f"{where} the counterparty acted {effects.times_acted} times for one request"
        f" (in_doubt={policy.value!r}, idempotent={effects.idempotent},"
        f" told {first.status.state})"
    )
