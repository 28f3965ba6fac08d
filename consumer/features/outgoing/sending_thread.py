"""A thread that takes over records, and writes each until Kafka has it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

BATCH = 256
RETRY_S = 1.0

Item = TypeVar("Item")


class SendingThread(Generic[Item]):
    """Gathers items and has them written together, in their order.

    Args:
        write: writes some of them and returns those to be tried again; called in the thread.
        close: closes its connections, in the thread.
        gather_s: how long the first item waits for others: a record that is sent alone costs as
            much as a hundred.
        limit: how many wait at most; the oldest is dropped first. None: no limit, because their
            number is bounded elsewhere.
        is_ordered: whether a record that is tried again goes before later ones. Else it goes behind
            them, so that one that can never be written holds up no other.
    """

    def __init__(
        self,
        name: str,
        *,
        write: Callable[[Sequence[Item]], Sequence[Item]],
        close: Callable[[], None],
        gather_s: float,
        limit: int | None = None,
        is_ordered: bool = True,
    ) -> None:
        self._is_ordered = is_ordered
        self._write = write
        self._close = close
        self._gather_s = gather_s
        self._waiting: deque[Item] = deque(maxlen=limit)
        self._changed = threading.Condition()
        self._is_away = False
        self._is_busy = False
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"onceward-{name}", daemon=True)

    def __len__(self) -> int:
        return len(self._waiting)

    def start(self) -> None:
        self._thread.start()

    def send(self, items: Iterable[Item]) -> None:
        """Take over items; returns at once. Any thread."""
        with self._changed:
            self._waiting.extend(items)
            self._changed.notify_all()

    def stop(self, timeout_s: float) -> None:
        """Write waiting records while Kafka answers, for half of the time; then end the thread."""
        with self._changed:
            self._changed.wait_for(self._is_done, timeout_s / 2)
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout_s / 2)

    def _is_done(self) -> bool:
        is_idle = not self._waiting and not self._is_busy
        return is_idle or self._is_away or not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while batch := self._next():
                left = self._write(batch)
                with self._changed:
                    self._is_busy = False
                    self._is_away = bool(left)
                    self._put_back(left)
                    self._changed.notify_all()
                    if left:
                        self._changed.wait_for(lambda: self._stopping, RETRY_S)
        finally:
            self._close()

    def _put_back(self, left: Sequence[Item]) -> None:
        if not self._is_ordered:
            self._waiting.extend(left)
            return
        limit = self._waiting.maxlen
        room = len(left) if limit is None else limit - len(self._waiting)
        # The oldest of them are dropped first as well.
        self._waiting.extendleft(reversed(left[max(0, len(left) - room) :] if room > 0 else ()))

    def _next(self) -> list[Item]:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            self._changed.wait_for(lambda: self._stopping or self._is_enough, self._gather_s)
            if self._stopping:
                return []
            self._is_busy = True
            return [self._waiting.popleft() for _ in range(min(BATCH, len(self._waiting)))]

    @property
    def _is_enough(self) -> bool:
        return len(self._waiting) >= BATCH
