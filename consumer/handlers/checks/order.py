"""What is refused of a declaration of order: what would run behind those that came later."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumer.handlers.declaration import Handler


def fault_of_order(handler: Handler) -> str | None:
    """Return what is wrong, as a sentence that says what to write instead; None when nothing is."""
    if handler.order == "key" and handler.retry_on and handler.retries is None:
        return (
            'order="key" with retry_on= needs retries=: without it only a resend runs such a '
            "failure again, and by then later requests of its key have run"
        )
    return None
