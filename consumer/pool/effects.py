"""The child's questions at marked effects, until the parent has answered them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from consumer.pool.outbox import Outbox

EffectAnswered = Callable[[bool], None]


class Effects:
    """Asks once for a run, however many of its threads wait for the answer."""

    def __init__(self, outbox: Outbox) -> None:
        self._outbox = outbox
        self._lock = threading.Lock()
        self._waiting: dict[int, list[EffectAnswered]] = {}

    def ask(self, number: int, answered: EffectAnswered) -> None:
        """Ask the parent; `answered` is called on the reader's thread."""
        with self._lock:
            waiting = self._waiting.setdefault(number, [])
            waiting.append(answered)
        if len(waiting) == 1:
            self._outbox.ask(number)

    def answer(self, number: int, granted: bool) -> None:
        """Let those go on who wait; a run that has ended meanwhile has nobody."""
        with self._lock:
            waiting = self._waiting.pop(number, [])
        for answered in waiting:
            answered(granted)
