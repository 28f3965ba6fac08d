"""`onceward.testing`: what the tests of users say of their handlers."""

import asyncio
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any
from uuid import uuid4

import pytest
from pydantic import BaseModel
from sqlalchemy import text

from consumer.pool import ChildRetired
from onceward import (
    Happened,
    InDoubt,
    NotAvailable,
    Rejected,
    Request,
    State,
    Unknown,
    Voided,
    handler,
)
from onceward.testing import (
    Bench,
    Counterparty,
    NeverReached,
    NotCovered,
    Point,
    RanTwice,
    assert_safe,
)
from tests.documents import ROOT, examples

pytestmark = pytest.mark.usefixtures("no_handler_stays")
LIMIT_S = 30.0
Charge = Callable[[Request], Any]


def marked(bank: Counterparty, **declared: Any) -> Charge:
    """Return a handler that calls the bank in its marked effect."""

    @handler(topic=f"t-{uuid4().hex}", effect="marked", **declared)
    def charge(request: Request) -> dict[str, Any]:
        with request.effect():
            bank.call(request.idempotency_key)
        return {"paid": request.json()["amount"]}

    return charge


def external(bank: Counterparty, **declared: Any) -> Charge:
    """Return a handler whose whole run may be the effect."""

    @handler(topic=f"t-{uuid4().hex}", **declared)
    def charge(request: Request) -> None:
        bank.call(request.idempotency_key)

    return charge


def test_a_run_says_what_its_client_is_told_and_what_became_of_it() -> None:
    with Bench(marked(Counterparty())) as bench:
        outcome = bench.run({"amount": 5}, duplicates=2)
    assert outcome.status.state is State.SUCCEEDED
    assert outcome.status.result == {"paid": 5}
    assert (outcome.runs, outcome.effects, outcome.has_letter) == (1, 1, False)


def test_a_coroutine_runs_as_a_plain_function_does_and_dies_as_one() -> None:
    bank = Counterparty(idempotent=True)

    @handler(topic=f"t-{uuid4().hex}", effect="marked", in_doubt="retry_same_key")
    async def charge(request: Request) -> str:
        await asyncio.sleep(0)
        async with request.effect():
            bank.call(request.idempotency_key)
        return "paid"

    assert_safe(charge, effects=bank)
    with Bench(charge) as bench:
        bench.die_in_effect()
        outcome = bench.run()
    assert (outcome.status.result, outcome.runs) == ("paid", 2)


@pytest.mark.parametrize(
    ("point", "told", "acted"),
    [
        (Point.BEFORE_EFFECT, State.SUCCEEDED, 1),
        (Point.IN_EFFECT, State.IN_DOUBT, 1),
        (Point.AFTER_EFFECT, State.IN_DOUBT, 1),
    ],
)
def test_where_a_marked_run_dies_decides_how_it_goes_on(
    point: Point, told: State, acted: int
) -> None:
    bank = Counterparty()
    with Bench(marked(bank)) as bench:
        bench.die(point)
        outcome = bench.run({"amount": 5})
    assert (outcome.status.state, bank.times_acted) == (told, acted)


def test_a_wait_that_is_over_before_it_begins_ends() -> None:
    """A machine under load turns the shortest waits of the loop into such ones."""

    @handler(topic=f"t-{uuid4().hex}")
    def quick(request: Request) -> None:
        return None

    with Bench(quick) as bench:
        for _ in range(2_000):
            bench._pool._events.put(ChildRetired(1, "in this test"))
            assert bench._pool.poll(1e-6)
            assert not bench._pool.poll(1e-6)


def test_an_external_run_that_dies_before_its_call_is_in_doubt_all_the_same() -> None:
    bank = Counterparty()
    with Bench(external(bank)) as bench:
        bench.die_before_effect()
        assert bench.run().status.state is State.IN_DOUBT
    assert bank.times_acted == 0


def test_what_hangs_ends_by_its_time_limit() -> None:
    with Bench(external(Counterparty(), time_limit_s=30)) as bench:
        bench.time_limit()
        status = bench.run().status
    assert (status.state, status.code) == (State.IN_DOUBT, "TIMEOUT")


def test_a_death_that_no_run_comes_to_is_a_failure_of_the_test() -> None:
    @handler(topic=f"t-{uuid4().hex}", effect="marked")
    def nothing(request: Request) -> None:
        request.json()

    with Bench(nothing) as bench, pytest.raises(NeverReached, match="in_effect: it is SUCCEEDED"):
        bench.die_in_effect()
        bench.run("1")


def test_the_same_key_is_safe_with_an_idempotent_counterparty_and_named_with_a_careless_one() -> (
    None
):
    assert_safe(
        marked(bank := Counterparty(idempotent=True), in_doubt="retry_same_key"),
        {"amount": 5},
        effects=bank,
    )
    careless = Counterparty()
    with pytest.raises(RanTwice, match=r"died in_effect the counterparty acted 2 times"):
        assert_safe(marked(careless, in_doubt="retry_same_key"), {"amount": 5}, effects=careless)


@pytest.mark.parametrize("effect", ["external", "marked"])
def test_a_failure_that_is_wrongly_declared_to_be_harmless_is_named(effect: Any) -> None:
    bank = Counterparty()

    @handler(
        topic=f"t-{uuid4().hex}", effect=effect, retries="1s x 2, 2m", retry_on=ConnectionError
    )
    def charge(request: Request) -> None:
        with request.effect() if effect == "marked" else nullcontext():
            bank.call(request.idempotency_key)
        raise ConnectionResetError("the answer was lost")

    with pytest.raises(RanTwice, match="without a death the counterparty acted 4 times"):
        assert_safe(charge, effects=bank)


def test_a_retry_after_nothing_happened_is_safe_and_dies_as_a_first_run_does() -> None:
    bank, busy = Counterparty(), [True]

    @handler(
        topic=f"t-{uuid4().hex}", effect="marked", retries="1s x 9", retry_on=ConnectionRefusedError
    )
    def charge(request: Request) -> None:
        busy.append(not busy[-1])
        if busy[-2]:
            raise ConnectionRefusedError
        with request.effect():
            bank.call(request.idempotency_key)

    assert_safe(charge, effects=bank)
    with Bench(charge) as bench:
        busy.append(True)
        bench.die_in_effect()
        bench.run_with_retries(None, request_id="a")
        assert bench.outcome("a").status.state is State.IN_DOUBT


def test_tasks_that_come_to_their_effect_together_get_one_answer() -> None:
    bank = Counterparty()

    @handler(topic=f"t-{uuid4().hex}", effect="marked")
    async def charge(request: Request) -> None:
        async def enter() -> None:
            async with request.effect():
                pass

        await asyncio.gather(enter(), enter())
        bank.call(request.idempotency_key)

    with Bench(charge) as bench:
        outcome = bench.run()
    assert (outcome.status.state, outcome.effects) == (State.SUCCEEDED, 1)


def test_what_is_parked_is_safe_whatever_the_counterparty_does() -> None:
    for kind in (marked, external):
        assert_safe(kind(bank := Counterparty()), {"amount": 5}, effects=bank)


def test_who_asks_the_counterparty_is_safe() -> None:
    bank = Counterparty()

    def ask(request: Request) -> Happened | Voided | Unknown:
        if bank.knows(request.idempotency_key):
            return Happened("it had")
        bank.void(request.idempotency_key)
        return Voided()

    charge = external(bank, in_doubt="query", query=ask, time_limit_s=30)
    assert_safe(charge, effects=bank)
    with Bench(charge) as bench:
        bench.die_after_effect()
        assert bench.run().status.result == "it had"


def test_the_writes_of_a_transactional_run_that_dies_are_undone_and_made_once() -> None:
    @handler(topic=f"t-{uuid4().hex}", effect="transactional")
    def book(request: Request) -> int:
        run = request.connection.execute
        run(text("CREATE TABLE IF NOT EXISTS seat (name TEXT)"))
        run(text("INSERT INTO seat VALUES ('12A')"))
        return int(run(text("SELECT count(*) FROM seat")).scalar_one())

    for point in (Point.BEFORE_EFFECT, Point.AFTER_EFFECT):
        with Bench(book) as bench:
            bench.die(point)
            outcome = bench.run(request_id="a")
            again = bench.run(request_id="a", attempt=2)
        assert (outcome.status.state, outcome.status.result) == (State.SUCCEEDED, 1)
        assert (outcome.runs, again.runs) == (2, 2)


def test_a_transactional_handler_needs_no_counterparty_and_may_not_call_one() -> None:
    bank = Counterparty()

    @handler(topic=f"t-{uuid4().hex}", effect="transactional")
    def book(request: Request) -> None:
        request.connection.execute(text("CREATE TABLE IF NOT EXISTS seat (name TEXT)"))
        request.connection.execute(text("INSERT INTO seat VALUES ('12A')"))

    @handler(topic=f"t-{uuid4().hex}", effect="transactional")
    def book_and_pay(request: Request) -> None:
        book(request)
        bank.call(request.request_id)

    assert_safe(book)
    with pytest.raises(RanTwice, match="after its child died in_effect the counterparty acted 2"):
        assert_safe(book_and_pay, effects=bank)


def test_a_call_that_comes_before_the_marked_effect_is_found() -> None:
    bank = Counterparty()

    @handler(topic=f"t-{uuid4().hex}", effect="marked")
    def too_early(request: Request) -> None:
        bank.call(request.request_id)
        with request.effect():
            pass

    with pytest.raises(RanTwice, match="died before_effect the counterparty acted 2 times"):
        assert_safe(too_early, effects=bank)


def test_a_handler_without_a_counterparty_proves_nothing() -> None:
    @handler(topic=f"t-{uuid4().hex}", effect="marked")
    def nothing(request: Request) -> None:
        with request.effect():
            pass

    with pytest.raises(NeverReached, match="effects="):
        assert_safe(nothing)


def test_a_marked_run_dies_in_its_effect_without_a_counterparty_too() -> None:
    after = []

    @handler(topic=f"t-{uuid4().hex}", effect="marked")
    def charge(request: Request) -> None:
        with request.effect():
            pass
        after.append(request.generation)

    with Bench(charge) as bench:
        bench.die_in_effect()
        assert bench.run().status.state is State.IN_DOUBT
        assert not after


def test_a_second_death_and_one_of_a_resend_are_deaths_of_runs_of_their_own() -> None:
    bank, refusals = Counterparty(), [ConnectionRefusedError()]

    @handler(topic=f"t-{uuid4().hex}", effect="marked", retry_on=ConnectionRefusedError)
    def charge(request: Request) -> str:
        if refusals and request.json() == "refuse":
            raise refusals.pop()
        with request.effect():
            bank.call(request.idempotency_key)
        return "paid"

    with Bench(charge) as bench:
        bench.die_before_effect()
        bench.die_before_effect()
        twice = bench.run('"pay"', request_id="a")
        assert bench.run('"refuse"', request_id="b").status.resend
        bench.die_before_effect()
        bench.die_in_effect()
        resent = bench.run('"refuse"', request_id="b", attempt=2)
        assert [twice.status.result, twice.runs, twice.effects] == ["paid", 3, 1]
        assert [resent.status.state, resent.runs, resent.effects] == [State.IN_DOUBT, 3, 1]


def test_what_a_dead_run_still_does_at_the_end_reaches_no_counterparty() -> None:
    bank, threads = Counterparty(), threading.active_count()

    @handler(topic=f"t-{uuid4().hex}")
    async def charge(request: Request) -> None:
        try:
            await asyncio.to_thread(bank.call, request.request_id)
        finally:
            bank.call(request.request_id)

    with Bench(charge) as bench:
        bench.die_in_effect()
        assert bench.run().status.state is State.IN_DOUBT
    assert bank.times_acted == 1
    assert threading.active_count() == threads


@pytest.mark.parametrize(
    ("error", "told", "code"),
    [
        (Rejected("BAD_AMOUNT", "no"), State.FAILED, "BAD_AMOUNT"),
        (InDoubt("who knows"), State.IN_DOUBT, "IN_DOUBT"),
        (ValueError("oops"), State.IN_DOUBT, "HANDLER_ERROR"),
        (ConnectionRefusedError(), State.FAILED, "HANDLER_ERROR"),
    ],
)
def test_errors_end_a_request_as_the_handler_declares_them(
    error: Exception, told: State, code: str | None
) -> None:
    @handler(topic=f"t-{uuid4().hex}", retry_on=ConnectionRefusedError)
    def fails(request: Request) -> None:
        raise error

    with Bench(fails) as bench:
        outcome = bench.run()
    assert (outcome.status.state, outcome.status.code) == (told, code)
    assert outcome.has_letter is (code == "BAD_AMOUNT")


def test_a_failure_that_a_resend_may_help_runs_again_and_another_payload_never_does() -> None:
    errors = [ConnectionRefusedError()]

    @handler(topic=f"t-{uuid4().hex}", retry_on=ConnectionRefusedError)
    def second_time(request: Request) -> str:
        if errors:
            raise errors.pop()
        return "done"

    with Bench(second_time) as bench:
        assert bench.run("1", request_id="a").status.resend
        assert bench.run("1", request_id="a", attempt=2).status.result == "done"
        other = bench.run("2", request_id="a", attempt=3)
    assert (other.status.result, other.runs) == ("done", 2)


@pytest.mark.parametrize("point", [None, *Point])
def test_a_journal_that_is_away_for_a_while_delays_a_run_and_repeats_nothing(
    point: Point | None, caplog: pytest.LogCaptureFixture
) -> None:
    bank = Counterparty()
    with Bench(marked(bank)) as bench:
        bench.journal_away(point)
        outcome = bench.run({"amount": 5})
    assert (outcome.status.state, outcome.runs, bank.times_acted) == (State.SUCCEEDED, 1, 1)
    assert [one.message.split()[0] for one in caplog.records].count("journal.away") == 1


def test_a_transactional_handler_loses_its_journal_between_runs_alone() -> None:
    @handler(topic=f"t-{uuid4().hex}", effect="transactional")
    def book(request: Request) -> str:
        return "booked"

    with Bench(book) as bench:
        bench.journal_away()
        assert bench.run().status.result == "booked"
        with pytest.raises(NotCovered, match="between runs"):
            bench.journal_away(Point.AFTER_EFFECT)


def test_retries_run_when_the_test_lets_their_time_pass_and_not_before() -> None:
    @handler(topic=f"t-{uuid4().hex}", retries="10s x 2, 60s", retry_on=ConnectionRefusedError)
    def busy(request: Request) -> None:
        raise ConnectionRefusedError

    with Bench(busy) as bench:
        assert bench.run(request_id="a").status.state is State.RETRYING
        bench.journal_away()
        bench.advance(5)
        bench.advance(2)
        assert bench.run(request_id="b").runs == 1
        assert bench.outcome("a").runs == 1
        bench.advance(20)
        assert (bench.outcome("a").status.state, bench.outcome("a").runs) == (State.RETRYING, 3)
        bench.advance(100)
        last = bench.outcome("a")
    assert (last.status.state, last.runs, last.has_letter) == (State.FAILED, 4, True)


def test_a_retry_that_dies_goes_on_as_any_run_does() -> None:
    errors = [ConnectionRefusedError()]
    bank = Counterparty()

    @handler(topic=f"t-{uuid4().hex}", effect="marked", retries="5s", retry_on=ConnectionError)
    def charge(request: Request) -> str:
        if errors:
            raise errors.pop()
        with request.effect():
            bank.call(request.idempotency_key)
        return "paid"

    with Bench(charge) as bench:
        bench.run(request_id="a")
        bench.die_before_effect()
        with pytest.raises(NeverReached, match="before_effect"):
            bench.advance(1)
        bench.die_before_effect()
        bench.advance(4)
        outcome = bench.outcome("a")
    assert (outcome.status.result, outcome.runs, bank.times_acted) == ("paid", 3, 1)


def test_a_resend_after_the_deadline_does_not_run() -> None:
    @handler(topic=f"t-{uuid4().hex}", deadline_s=60, retry_on=ConnectionRefusedError)
    def busy(request: Request) -> None:
        raise ConnectionRefusedError

    with Bench(busy) as bench:
        assert bench.run(request_id="a").status.resend
        bench.advance(30)
        assert bench.run(request_id="a", attempt=2).runs == 2
        bench.advance(31)
        late = bench.run(request_id="a", attempt=3)
    assert (late.runs, late.status.state) == (2, State.FAILED)


EXAMPLES = {
    place: block for place, block in examples().items() if "from onceward.testing import" in block
}


@pytest.mark.parametrize("example", EXAMPLES.values(), ids=EXAMPLES)
def test_the_examples_of_the_documents_pass_as_they_are_printed(example: str) -> None:
    program: dict[str, Any] = {"__name__": "test_payments"}
    exec(example, program)
    tests = [one for name, one in program.items() if name.startswith("test_")]
    assert tests
    for test in tests:
        test()


def test_a_bench_leaves_no_thread_of_a_transactional_handler() -> None:
    @handler(topic=f"t-{uuid4().hex}", effect="transactional")
    def book(request: Request) -> None:
        request.connection.execute(text("SELECT 1"))

    before = {*threading.enumerate()}
    with Bench(book) as bench:
        assert bench.run().status.state is State.SUCCEEDED
    for thread in {*threading.enumerate()} - before:
        thread.join(LIMIT_S)
        assert not thread.is_alive(), thread.name


class Payment(BaseModel):
    """The value that a handler wants."""

    amount: int


def test_a_value_that_does_not_fit_its_model_never_runs() -> None:
    @handler(topic=f"t-{uuid4().hex}", model=Payment)
    def pay(request: Request) -> int:
        return int(request.payload.amount)

    with Bench(pay) as bench:
        outcome = bench.run({"amount": "much"})
        assert bench.run({"amount": 5}).status.result == 5
    assert (outcome.status.code, outcome.state, outcome.runs) == ("INVALID_MESSAGE", "FAILED", 0)


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ({"order": "key"}, "order="),
        ({"delivery": "batch"}, "delivery="),
    ],
)
def test_what_a_bench_does_not_cover_is_refused_by_name(
    declared: dict[str, Any], named: str
) -> None:
    with pytest.raises(NotCovered, match=named):
        Bench(external(Counterparty(), **declared))


def test_without_fakeredis_it_is_said_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fakeredis", None)
    with pytest.raises(NotAvailable, match=r"pip install 'onceward\[testing\]'"):
        Bench(external(Counterparty()))
    assert "\ntesting =\n    fakeredis[lua]" in (ROOT / "setup.cfg").read_text()
