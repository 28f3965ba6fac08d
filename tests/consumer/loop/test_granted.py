"""What a delivery is run as, once its claim is granted."""

from __future__ import annotations

from consumer.features.retries.next_run import ended
from consumer.handlers.backoff import Tiers
from consumer.handlers.declaration import Order
from consumer.journal import Finish, RetriedRuns
from consumer.journal.records import NEVER_RETRIED
from consumer.loop.granted import placed_delivery
from tests.consumer.samples import delivery, payments, row


def test_it_runs_until_the_deadline_of_its_row_whatever_its_record_says() -> None:
    one = delivery("a", attempt=2)
    for later_ms in (-5_000, 0, 5_000):
        claim = row("a", "CLAIMED", deadline_at=one.deadline_at + later_ms)
        found = placed_delivery(one, claim, NEVER_RETRIED)
        assert found == one._replace(deadline_at=one.deadline_at + later_ms)


def test_what_a_resend_with_the_old_deadline_reopened_has_its_retries_until_the_new_one() -> None:
    handler = payments(retry_on=(OSError,), retries=Tiers.parse("1s"))
    one = delivery("a", attempt=2)._replace(handler=handler)
    claim = row("a", "CLAIMED", deadline_at=one.deadline_at + 3_600_000)
    failed = Finish("a", 1, "FAILED", "HANDLER_ERROR", "OSError", None, True)
    now_ms = one.deadline_at + 1
    assert ended(failed, one, now_ms=now_ms).state == "FAILED"
    assert (
        ended(failed, placed_delivery(one, claim, NEVER_RETRIED), now_ms=now_ms).state == "RETRYING"
    )


def test_a_retry_is_run_as_the_request_at_its_first_place() -> None:
    one = delivery("a")._replace(wakes=3, handler=payments(order=Order.KEY))
    claim = row("a", "CLAIMED", partition=5, offset=99, deadline_at=7)
    found = placed_delivery(one, claim, RetriedRuns(3, 8))
    assert (found.record.partition, found.record.offset, found.deadline_at) == (5, 99, 7)
    assert (found.wakes, found.retried, found.first_failed_at) == (0, 3, 8)
