"""Refuses declarations of `delivery=` whose promises cannot be kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from feedback.errors import SettingsError

if TYPE_CHECKING:
    from consumer.features.waits.wait_record import Wait
    from consumer.handlers.declaration import Handler

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


def declared_by(wait: Wait, handler: Handler) -> Wait:
    """Return a wait record that says by which declaration its holder runs it."""
    return wait._replace(effect=str(handler.effect), in_doubt=str(handler.in_doubt))


def may_run_again(handler: Handler, wait: Wait) -> bool:
    """Whether a run of which nothing is known may be followed by another one.

    Its counterparty knows requests by their keys, or its transaction undid its writes: by the
    stricter of two declarations, since a deploy may have changed it. The run that died may have
    given no key.

    Args:
        handler: the one that runs it next.
        wait: of the run that died; where it does not say how that was declared, as the handler.
    """
    is_known = wait.in_doubt is not None
    return _undoes(handler.effect, handler.in_doubt) and (
        not is_known or _undoes(wait.effect, wait.in_doubt)
    )


def _undoes(effect: str | None, in_doubt: str | None) -> bool:
    return in_doubt == "retry_same_key" or effect == "transactional"


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
