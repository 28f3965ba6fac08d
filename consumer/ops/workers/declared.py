"""A handler's declaration in a line, as heartbeats carry it. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from consumer.handlers.declaration import DeliveryKind, EffectKind, Handler, InDoubtPolicy, Order

LONGEST = 200
_POLICIES = {
    InDoubtPolicy.PARK: "a person ends doubts",
    InDoubtPolicy.RETRY_SAME_KEY: "a doubt runs again with its key",
    InDoubtPolicy.QUERY: "the counterparty is asked about doubts",
}


def promise_words(handler: Handler) -> str:
    """Return the name of a handler, and what it promises.

    >>> promise_words(Handler(function=print, topic="pay", name="bank:charge"))
    'bank:charge: effect external, a person ends doubts'
    """
    words = f"{handler.name}: {', '.join(_promises(handler))}"
    return words if len(words) <= LONGEST else f"{words[: LONGEST - 1]}…"


def _promises(handler: Handler) -> Iterator[str]:
    if handler.delivery is not DeliveryKind.AT_MOST_ONCE:
        yield handler.delivery.value.replace("_", " ")
    yield f"effect {handler.effect.value}"
    if handler.effect is not EffectKind.TRANSACTIONAL:  # nobody ever doubts it
        yield _POLICIES[handler.in_doubt]
    if handler.retries is not None:
        within_s = handler.retries_within_s
        yield "retried" if within_s is None else f"retried within {within_s:g} s"
    if handler.order is not Order.NONE:
        yield f"in order by {handler.order.value}"
    if handler.collapse is not None:
        yield "collapses"
    if handler.time_limit_s is not None:
        yield f"at most {handler.time_limit_s:g} s"
    if handler.dead_letters_of is not None:
        yield f"dead letters of {handler.dead_letters_of}"
    if handler.outcome_topic is not None:
        yield f"outcomes to {handler.outcome_topic}"
