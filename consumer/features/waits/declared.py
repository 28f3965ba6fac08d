"""A wait record and the declaration of its handler. Pure."""

from __future__ import annotations

from consumer.features.waits.wait_record import WaitRecord
from consumer.handlers.declaration import Handler


def declared_by(wait: WaitRecord, handler: Handler) -> WaitRecord:
    """Return a wait record that says by which declaration its holder runs it."""
    return wait._replace(effect=str(handler.effect), in_doubt=str(handler.in_doubt))


def may_run_again(handler: Handler, wait: WaitRecord) -> bool:
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
