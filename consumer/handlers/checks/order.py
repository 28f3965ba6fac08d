"""Refuses declarations of order that would let a request run behind later ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumer.handlers.declaration import Handler


def fault_of_order(handler: Handler) -> str | None:
    """Return a sentence that names the fault and its correction; None when there is none."""
    if handler.order == "key" and handler.retry_on and handler.retries is None:
        return (
            'order="key" with retry_on= needs retries=: without it only a resend runs such a '
            "failure again, and by then later requests of its key have run"
        )
    return None
