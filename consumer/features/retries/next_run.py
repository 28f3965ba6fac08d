"""How a run ends that failed as declared: waiting for the next one, or for good. Pure."""

from __future__ import annotations

from random import Random

from consumer.features.retries.headers import WakeUp
from consumer.handlers.declaration import DeliveryKind, Order
from consumer.handlers.delivery import Delivery
from consumer.handlers.retry_policy import next_delay_ms
from consumer.journal import Finish, JournalState, Row

_dice = Random()


def ended(finish: Finish, delivery: Delivery, *, now_ms: int, random: Random = _dice) -> Finish:
    """Return the end of a run: RETRYING where another one follows by itself.

    After the last one no resend helps either: it is a dead letter, for a person.

    Args:
        delivery: the request that ran, with the number of its retries.
    """
    handler = delivery.handler
    if finish.state != JournalState.FAILED or not finish.resend:
        return finish
    if handler.retries is None:
        # No client waits for it, so none resends it.
        is_waited_for = handler.delivery is not DeliveryKind.AT_LEAST_ONCE
        return finish if is_waited_for else finish._replace(resend=False)
    within_s = handler.retries_within_s
    delay_ms = next_delay_ms(
        handler.retries,
        retried=delivery.retried,
        failing_ms=max(0, now_ms - (delivery.first_failed_at or now_ms)),
        left_ms=delivery.deadline_at - now_ms,
        within_ms=None if within_s is None else int(within_s * 1000),
        random=random,
    )
    if delay_ms is None:
        return finish._replace(resend=False)
    return finish._replace(
        state=JournalState.RETRYING,
        resend=False,
        delay_ms=delay_ms,
        # In an ordered topic a resend would come behind the requests that ran meanwhile.
        resend_if_late=handler.order is Order.NONE,
    )


def wakeup(delivery: Delivery, finish: Finish, *, due_at: int) -> WakeUp:
    """Return the wake-up of the run after this one.

    Args:
        due_at: epoch ms, as the journal has written it.
    """
    delay_ms = finish.delay_ms or 0
    failed_at = due_at - delay_ms
    return WakeUp(
        delivery=delivery,
        generation=finish.generation,
        due_at=due_at,
        delay_ms=delay_ms,
        code=finish.code,
        message=finish.message,
        runs=delivery.retried + 1,
        first_failed_at=delivery.first_failed_at or failed_at,
        failed_at=failed_at,
    )


def wakeup_of_row(delivery: Delivery, row: Row) -> WakeUp:
    """Return the wake-up of the next run of a row that waits for it."""
    failed_at = row.finished_at or 0
    due_at = failed_at if row.due_at is None else row.due_at
    return WakeUp(
        delivery=delivery,
        generation=row.generation,
        due_at=due_at,
        delay_ms=max(0, due_at - failed_at),
        code=row.code,
        message=row.message,
        runs=delivery.retried + 1,
        first_failed_at=delivery.first_failed_at or failed_at,
        failed_at=failed_at,
    )
