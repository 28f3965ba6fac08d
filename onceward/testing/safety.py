"""A handler dies at every point, is sent again and comes twice: nothing may happen twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from consumer.handlers.declaration import EffectKind
from feedback.records.envelope import new_request_id
from feedback.status import State
from onceward.testing.bench import Bench
from onceward.testing.counterparty import Counterparty, counterparties
from onceward.testing.deaths import NeverReached, Point
from onceward.testing.real.switch import real_servers
from producer_client.submission import Value

# A second death follows each of them.
DEATHS = (Point.BEFORE_EFFECT, Point.IN_EFFECT, Point.AFTER_EFFECT)
# Words after which a caller asks anew, under another id.
_NOTHING_HAPPENED = (State.FAILED, State.EXPIRED)


class RanTwice(AssertionError):
    """Something happened twice, or will if a caller asks anew; its text says after which deaths."""


@dataclass(frozen=True, slots=True)
class DeathCase:
    """The deaths of the first sending's runs, and of the resend's.

    Attributes:
        paused: where the first run stood still, to go on after a takeover.
    """

    first: tuple[Point, ...] = ()
    resend: tuple[Point, ...] = ()
    paused: Point | None = None

    def __str__(self) -> str:
        if self.paused is not None:
            return f"after a takeover, when a run woke up that was paused {self.paused},"
        told = [f"its child died {' and '.join(self.first)}"] if self.first else []
        if self.resend:
            told.append(f"the resend's died {' and '.join(self.resend)}")
        return f"after {', '.join(told)}" if told else "without a death"


def cases(*, pauses: bool) -> Iterator[DeathCase]:
    """Yield a life without a death, each death alone, with a second one, and before a resend's.

    Args:
        pauses: whether to yield runs that wake up too late, as well.
    """
    yield DeathCase()
    for point in DEATHS:
        yield DeathCase((point,))
        yield DeathCase((), (point,))
        yield DeathCase((point,), (point,))
        yield from (DeathCase((point, second)) for second in DEATHS)
    yield DeathCase((Point.AT_CALL,))
    if pauses:
        yield DeathCase(paused=Point.BEFORE_EFFECT)
        yield DeathCase(paused=Point.AT_CALL)


def assert_safe(
    function: Callable[..., Any], value: Value = None, *, effects: Counterparty | None = None
) -> None:
    """Die at every point of a handler, die again, send again, come twice, and count.

    The retries that a failure is declared to have run too, however late they are. A run wakes up
    when it has been taken over, unless it is transactional, or on real servers.
    Points that the handler never comes to are left out: after a doubt there is no second run.

    Args:
        function: with `@handler`; each case is a request of its own.
        effects: the counterparty that it calls, as new before each case. A transactional handler
            may have none; its commits are counted as well. Others that it calls may act once for
            each key.

    Raises:
        RanTwice: it acted, or committed, more than once for one request; or it acted, and the
            client was told FAILED or EXPIRED, after which a caller may ask anew.
        NeverReached: the handler calls no counterparty, and is not transactional.
        NotReal: on real servers a retry waits for too long.
    """
    bank = Counterparty() if effects is None else effects
    with Bench(function) as bench:
        is_transactional = bench.handler.effect is EffectKind.TRANSACTIONAL
        all_cases = cases(pauses=not is_transactional and real_servers() is None)
        faults = [told for case in all_cases if (told := _fault(bench, value, bank, case))]
    if faults:
        raise RanTwice("; ".join(faults))


def _fault(bench: Bench, value: Value, effects: Counterparty, case: DeathCase) -> str | None:
    effects.forget()
    before = {one: +one.acted for one in counterparties() if one is not effects}
    name = new_request_id()
    if case.paused is not None:
        bench.pause(case.paused)
    for attempt, deaths in enumerate((case.first, case.resend), start=1):
        for point in deaths:
            bench.die(point)
        with suppress(NeverReached):
            bench.run_with_retries(value, request_id=name, attempt=attempt, duplicates=2 - attempt)
    outcome, handler = bench.outcome(name), bench.handler
    if case == DeathCase() and not effects.calls and handler.effect is not EffectKind.TRANSACTIONAL:
        raise NeverReached(f"{handler.name} never called its counterparty: give it as effects=")
    stands = (
        f" (in_doubt={handler.in_doubt.value!r}, idempotent={effects.idempotent},"
        f" commits={outcome.commits}, told {outcome.status.state})"
    )
    if effects.times_acted > 1 or outcome.commits > 1:
        acted = f"the counterparty acted {effects.times_acted} times for one request"
        return f"{case} {acted}{stands}"
    if effects.times_acted and outcome.status.state in _NOTHING_HAPPENED:
        return f"{case} the counterparty acted, and a caller may ask anew{stands}"
    for other in [one for one in before if max((one.acted - before[one]).values(), default=0) > 1]:
        return f"{case} another counterparty, of {other.place}, acted twice for one key{stands}"
    return None
