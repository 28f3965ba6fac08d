"""A handler's function that tells the points of its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

from consumer.handlers.declaration import EffectKind, Handler
from consumer.handlers.effect_gate import EffectGate
from consumer.handlers.request import Request
from onceward.testing.deaths import Point, reach


class WatchedGate:
    """The door to a marked effect; leaving it is the last point within the effect.

    Args:
        gate: the door itself.
        request_id: whose effect it is.
    """

    def __init__(self, gate: EffectGate, request_id: str) -> None:
        self._gate = gate
        self.request_id = request_id

    def __enter__(self) -> None:
        self._gate.__enter__()

    def __exit__(self, *raised: object) -> None:
        reach(Point.IN_EFFECT)

    async def __aenter__(self) -> None:
        await self._gate.__aenter__()

    async def __aexit__(self, *raised: object) -> None:
        reach(Point.IN_EFFECT)


def watched(
    handler: Handler, began: Callable[[str], None], *, gate: type[WatchedGate] = WatchedGate
) -> Handler:
    """Return the handler with a function that tells its points.

    Args:
        began: is told the id of each request that the function is called for.
        gate: the door to its marked effect.
    """
    function = handler.function
    asks_later = handler.effect is EffectKind.MARKED

    def begin(request: Request) -> Request:
        began(request.request_id)
        if not asks_later:
            reach(Point.BEFORE_EFFECT)
        if request.gate is None:
            return request
        door: Any = gate(request.gate, request.request_id)
        return replace(request, gate=door)

    @wraps(function)
    def plain(request: Request) -> object:
        value = function(begin(request))
        reach(Point.AFTER_EFFECT)
        return value

    @wraps(function)
    async def coroutine(request: Request) -> object:
        value = await function(begin(request))
        reach(Point.AFTER_EFFECT)
        return value

    return replace(handler, function=coroutine if handler.is_coroutine else plain)
