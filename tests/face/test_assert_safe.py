"""`assert_safe`: each handler here is a second charge, and none may pass."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

from onceward import Happened, Rejected, Request, State, Voided, handler
from onceward.testing import (
    Bench,
    Counterparty,
    NotCovered,
    Point,
    RanTwice,
    assert_safe,
)

pytestmark = pytest.mark.usefixtures("no_handler_stays")
Make = Callable[[Counterparty], Callable[[Request], Any]]


def after_its_answer(bank: Counterparty) -> Callable[[Request], Any]:
    """Return a handler whose task charges once more when it has returned."""
    tasks = set()

    async def charge(request: Request) -> None:
        bank.call(request.idempotency_key)
        tasks.add(asyncio.create_task(later(request)))

    async def later(request: Request) -> None:
        await asyncio.sleep(0)
        bank.call(request.idempotency_key)

    return handler(topic=f"t-{uuid4().hex}")(charge)


def at_another_shop(bank: Counterparty) -> Callable[[Request], Any]:
    """Return a handler that has a second counterparty, which is not given as `effects=`."""
    shop = Counterparty()

    def charge(request: Request) -> None:
        with request.effect():
            bank.call(request.idempotency_key)
            shop.call(request.request_id)

    declared = handler(topic=f"t-{uuid4().hex}", effect="marked", in_doubt="retry_same_key")
    return declared(charge)


def in_a_transaction(bank: Counterparty) -> Callable[[Request], Any]:
    """Return a transactional handler that calls a shop, which no rollback undoes."""
    shop = Counterparty()

    def charge(request: Request) -> None:
        shop.call(request.request_id)

    return handler(topic=f"t-{uuid4().hex}", effect="transactional")(charge)


def then_rejected(bank: Counterparty) -> Callable[[Request], Any]:
    """Return a handler that charges, and says that it did not."""

    def charge(request: Request) -> None:
        with request.effect():
            bank.call(request.idempotency_key)
        raise Rejected("NO_STOCK", "none is left")

    return handler(topic=f"t-{uuid4().hex}", effect="marked")(charge)


def never_voided(bank: Counterparty) -> Callable[[Request], Any]:
    """Return a handler whose query says voided, while the bank would still take the key."""

    def ask(request: Request) -> Happened | Voided:
        return Happened() if bank.knows(request.idempotency_key) else Voided()

    def charge(request: Request) -> None:
        with request.effect():
            bank.call(request.idempotency_key)

    topic = f"t-{uuid4().hex}"
    return handler(topic=topic, effect="marked", in_doubt="query", query=ask)(charge)


def let_in_or_not(bank: Counterparty) -> Callable[[Request], Any]:
    """Return a handler that does not care whether it was let into its effect."""

    def charge(request: Request) -> None:
        with suppress(BaseException), request.effect():
            pass
        bank.call(request.idempotency_key)

    return handler(topic=f"t-{uuid4().hex}", effect="marked")(charge)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (after_its_answer, "without a death the counterparty acted 2 times"),
        (at_another_shop, "another counterparty, of .*, acted twice for one key"),
        (in_a_transaction, "another counterparty, of .*, acted twice for one key"),
        (then_rejected, "the counterparty acted, and a caller may ask anew .* told FAILED"),
        (never_voided, "a run woke up that was paused at_call, the counterparty acted 2 times"),
        (let_in_or_not, "a run woke up that was paused before_effect, the counterparty acted 2"),
    ],
)
def test_a_second_charge_is_found(make: Make, said: str) -> None:
    bank = Counterparty(idempotent=make is at_another_shop)
    with pytest.raises(RanTwice, match=said):
        assert_safe(make(bank), effects=bank)


def test_a_run_that_wakes_up_after_its_takeover_is_not_let_in() -> None:
    bank = Counterparty()

    @handler(topic=f"t-{uuid4().hex}", effect="marked")
    def charge(request: Request) -> int:
        with request.effect():
            bank.call(request.idempotency_key)
        return request.generation

    with Bench(charge) as bench:
        bench.pause()
        outcome = bench.run()
        bench.pause(Point.AT_CALL)
        parked = bench.run()
    assert (outcome.status.result, outcome.runs, outcome.effects) == (2, 2, 1)
    # Its call was on its way: the person who resolves the doubt finds it.
    assert (parked.status.state, bank.times_acted) == (State.IN_DOUBT, 2)


def test_a_run_that_has_a_transaction_is_not_paused() -> None:
    @handler(topic=f"t-{uuid4().hex}", effect="transactional")
    def book(request: Request) -> None:
        """Do nothing."""

    with Bench(book) as bench, pytest.raises(NotCovered, match="not paused"):
        bench.pause()
