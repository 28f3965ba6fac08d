"""The door to a marked effect."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING

from consumer.handlers.errors import EffectRefused

if TYPE_CHECKING:
    import asyncio

Ask = Callable[[Callable[[bool], None]], None]


class EffectGate:
    """The door to a marked effect: opened once by the journal; for `with` and `async with`.

    Args:
        request_id: the request.
        generation: its claim.
        ask: asks the worker to record the effect; it calls back from any thread with True when
            that is committed, False when the claim is no longer ours.
    """

    __slots__ = ("_ask", "_generation", "_request_id", "granted", "refused")

    def __init__(self, request_id: str, generation: int, ask: Ask) -> None:
        self._request_id = request_id
        self._generation = generation
        self._ask: Ask | None = ask
        self.granted = False
        self.refused = False

    def close(self) -> None:
        """End the run: a thread that it left behind cannot begin the effect any more."""
        self._ask = None

    def __enter__(self) -> None:
        if (ask := self._open_question()) is not None:
            answers: SimpleQueue[bool] = SimpleQueue()
            ask(answers.put)
            self._settle(answers.get())

    async def __aenter__(self) -> None:
        if (ask := self._open_question()) is not None:
            import asyncio  # 8 MiB that children without coroutines do not need

            loop = asyncio.get_running_loop()
            answer = loop.create_future()

            def answered(granted: bool) -> None:
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(_resolve, answer, granted)

            ask(answered)
            self._settle(await answer)

    def __exit__(self, *raised: object) -> None:
        """Leave: the effect has happened, or nobody knows; there is nothing to undo."""

    async def __aexit__(self, *raised: object) -> None:
        """Leave, as `__exit__` does."""

    def _open_question(self) -> Ask | None:
        if self.refused:
            raise EffectRefused(self._request_id, self._generation)
        if self._ask is None:
            raise RuntimeError("the run has ended: effect() belongs inside the handler")
        return None if self.granted else self._ask

    def _settle(self, granted: bool) -> None:
        if not granted:
            self.refused = True
            raise EffectRefused(self._request_id, self._generation)
        self.granted = True


def _resolve(answer: asyncio.Future[bool], granted: bool) -> None:
    if not answer.done():
        answer.set_result(granted)
