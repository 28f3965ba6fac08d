"""A handler dies at every point, is sent again and comes twice: nothing may happen twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from consumer.handlers.declaration import EffectKind
from feedback.records.envelope import new_request_id
from onceward.testing.bench import Bench
from onceward.testing.counterparty import Counterparty
from onceward.testing.deaths import NeverReached, Point
from producer_client.submission import Value


class RanTwice(AssertionError):
    """Something happened twice; the text says after which deaths."""


@dataclass(frozen=True, slots=True)
class Case:
    """The deaths of the first sending's runs, and of the resend's."""

    first: tuple[Point, ...] = ()
    resend: tuple[Point, ...] = ()

    def __str__(self) -> str:
        told = [f"its child died {' and '.join(self.first)}"] if self.first else []
        if self.resend:
            told.append(f"the resend's died {' and '.join(self.resend)}")
        return f"after {', '.join(told)}" if told else "without a death"


def cases() -> Iterator[Case]:
    """Yield a life without a death, each death alone, with a second one, and before a resend's."""
    yield Case()
    for point in Point:
        yield Case((point,))
        yield Case((), (point,))
        yield Case((point,), (point,))
        yield from (Case((point, second)) for second in Point)


def assert_safe(
    function: Callable[..., Any], value: Value = None, *, effects: Counterparty | None = None
) -> None:
    """Die at every point of a handler, die again, send again, come twice, and count.

    The retries that a failure is declared to have run too, however late they are.
    Points that the handler never comes to are left out: after a doubt there is no second run.

    Args:
        function: with `@handler`; each case is a request of its own.
        effects: the counterparty that it calls, as new before each case. A transactional handler
            may have none; its commits are counted as well.

    Raises:
        RanTwice: it acted, or committed, more than once for one request.
        NeverReached: the handler calls no counterparty, and is not transactional.
        NotReal: on real servers a retry waits for too long.
    """
    bank = Counterparty() if effects is None else effects
    with Bench(function) as bench:
        faults = [told for case in cases() if (told := _fault(bench, value, bank, case))]
    if faults:
        raise RanTwice("; ".join(faults))


def _fault(bench: Bench, value: Value, effects: Counterparty, case: Case) -> str | None:
    effects.forget()
    name = new_request_id()
    for attempt, deaths in enumerate((case.first, case.resend), start=1):
        for point in deaths:
            bench.die(point)
        with suppress(NeverReached):
            bench.run_with_retries(value, request_id=name, attempt=attempt, duplicates=2 - attempt)
    outcome, handler = bench.outcome(name), bench.handler
    if case == Case() and not effects.calls and handler.effect is not EffectKind.TRANSACTIONAL:
        raise NeverReached(f"{handler.name} never called its counterparty: give it as effects=")
    if effects.times_acted <= 1 >= outcome.commits:
        return None
    return (
        f"{case} the counterparty acted {effects.times_acted} times for one request"
        f" (in_doubt={handler.in_doubt.value!r}, idempotent={effects.idempotent},"
        f" commits={outcome.commits}, told {outcome.status.state})"
    )
