"""How a run ends that failed as declared."""

from dataclasses import replace
from typing import Any

import pytest

from consumer.features.retries.next_run import ended, wakeup
from consumer.handlers.backoff import Tiers
from consumer.handlers.declaration import DeliveryKind, Order
from consumer.handlers.delivery import Delivery
from consumer.journal import Finish
from tests.consumer.samples import delivery, payments

NOW = 1_000_000


def _delivery(**changes: Any) -> Delivery:
    handler = payments(retry_on=(OSError,), retries=Tiers.parse("1s x 2"), retries_within_s=10)
    facts = {"handler": handler, "deadline_at": NOW + 60_000, **changes}
    return delivery("a")._replace(**facts)


def _finish(state: str = "FAILED", *, resend: bool = True) -> Finish:
    return Finish("a", 1, state, "HANDLER_ERROR", "OSError", None, resend)


def test_a_declared_failure_waits_for_its_next_run() -> None:
    found = ended(_finish(), _delivery(), now_ms=NOW)
    assert (found.state, found.delay_ms, found.resend) == ("RETRYING", 1000, False)
    assert (found.code, found.message) == ("HANDLER_ERROR", "OSError")


@pytest.mark.parametrize(("order", "may_help"), [(Order.NONE, True), (Order.KEY, False)])
def test_where_an_order_is_kept_no_resend_makes_up_for_a_run_that_comes_too_late(
    order: Order, may_help: bool
) -> None:
    one = _delivery()
    one = one._replace(handler=replace(one.handler, order=order))
    found = ended(_finish(), one, now_ms=NOW)
    assert (found.state, found.resend_if_late) == ("RETRYING", may_help)


@pytest.mark.parametrize(
    "changes",
    [
        {"retried": 2},
        {"deadline_at": NOW + 1000},
        {"retried": 1, "first_failed_at": NOW - 9_001},
    ],
)
def test_after_the_last_run_a_failure_is_for_good(changes: dict[str, Any]) -> None:
    found = ended(_finish(), _delivery(**changes), now_ms=NOW)
    assert (found.state, found.delay_ms, found.resend) == ("FAILED", None, False)


@pytest.mark.parametrize(
    "finish", [_finish(resend=False), _finish("SUCCEEDED"), _finish("IN_DOUBT", resend=False)]
)
def test_any_other_end_stays_as_it_is(finish: Finish) -> None:
    assert ended(finish, _delivery(), now_ms=NOW) is finish


def test_without_retries_a_resend_runs_it_again() -> None:
    finish = _finish()
    assert ended(finish, delivery("a"), now_ms=NOW) is finish


def test_where_nobody_waits_for_it_nobody_resends_it_and_it_is_for_good() -> None:
    one = delivery("a")
    one = one._replace(handler=replace(one.handler, delivery=DeliveryKind.AT_LEAST_ONCE))
    found = ended(_finish(), one, now_ms=NOW)
    assert (found.state, found.resend) == ("FAILED", False)


def test_a_wake_up_counts_runs_and_knows_the_first_failure() -> None:
    first = wakeup(_delivery(), _finish()._replace(delay_ms=1000), due_at=NOW)
    assert (first.runs, first.first_failed_at, first.failed_at) == (1, NOW - 1000, NOW - 1000)
    again = _delivery(retried=1, first_failed_at=7)
    second = wakeup(again, _finish()._replace(delay_ms=1000), due_at=NOW)
    assert (second.runs, second.first_failed_at) == (2, 7)
