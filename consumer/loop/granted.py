"""Reads a granted claim for the delivery that it was granted for. Pure."""

from __future__ import annotations

from consumer.handlers.delivery import Delivery
from consumer.journal import RetriedRuns, Row


def placed_delivery(delivery: Delivery, row: Row, runs: RetriedRuns) -> Delivery:
    """Return a delivery as it runs: the row knows better than the record that was read.

    Of each, until when: a redrive has given it longer than the record of a client's resend says,
    and a resend that names no deadline gives it no longer than it had (docs: Words, The guarantee).
    Of a retry, where its request came from as well.

    Args:
        row: its claim.
        runs: those before that failed as declared.
    """
    delivery = claimed_delivery(delivery, row)
    if delivery.deadline_at != row.deadline_at:
        delivery = delivery._replace(deadline_at=row.deadline_at)
    if not delivery.wakes:
        return delivery
    record = delivery.record._replace(partition=row.partition, offset=row.offset)
    return retried(delivery._replace(record=record), runs)


def claimed_delivery(delivery: Delivery, row: Row) -> Delivery:
    """Return a delivery with the claim under which it runs, and the key of that run."""
    return delivery._replace(voids=row.voids, claimed_at=row.claimed_at or 0)


def retried(delivery: Delivery, runs: RetriedRuns) -> Delivery:
    """Return a delivery with the runs before it that failed as declared."""
    # Granted, it is an ordinary run: asked for again, it must be found as that.
    return delivery._replace(wakes=0, retried=runs.runs, first_failed_at=runs.first_failed_at)
