"""Refuses declarations of `delivery=` whose promises cannot be kept."""

from __future__ import annotations

from collections.abc import Iterable

from consumer.handlers.declaration import Handler
from feedback.errors import SettingsError

AT_MOST_ONCE, AT_LEAST_ONCE = "at_most_once", "at_least_once"


def fault_of_delivery(handler: Handler) -> str | None:
    """Return a sentence that names the fault and its correction; None when there is none."""
    if handler.delivery == AT_MOST_ONCE:
        return None
    if handler.dead_letters_of is not None:
        return (
            f'delivery="{handler.delivery}" is for requests: a letter is kept until it is handled '
            'anyway, with on_error="retry"'
        )
    if handler.delivery == AT_LEAST_ONCE and handler.order == "key":
        return (
            'order="key" with delivery="at_least_once": what a dead worker held runs behind those '
            'that came later. Use delivery="at_most_once" or "batch"'
        )
    return None


def require_no_journal(handlers: Iterable[Handler]) -> None:
    """Accept handlers that can keep their promises without a journal.

    Raises:
        SettingsError: the first that cannot; the sentence names the correction.
    """
    for one in handlers:
        fault = _fault_without_journal(one)
        if fault:
            raise SettingsError(f"handler {one.name}: {fault}, or set [journal] url")


def _fault_without_journal(handler: Handler) -> str | None:
    if handler.delivery != AT_LEAST_ONCE:
        return f'delivery="{handler.delivery}" needs a journal: declare delivery="at_least_once"'
    if handler.effect == "transactional":
        return 'effect="transactional" writes into the journal\'s database: declare another effect'
    if handler.in_doubt == "query":
        return 'in_doubt="query" needs a journal: declare "retry_same_key" or "park"'
    if handler.retries is not None:
        return "retries= waits in the journal: use blocking="
    return None
