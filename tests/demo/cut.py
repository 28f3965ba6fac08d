"""Kafka taken away in the middle of the demo: killed, and started again after its time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

from tests.stack.restartable import Restartable


class Cut:
    """One absence of a broker that is the demo's own.

    Args:
        broker: it keeps its port and its data.
        seconds: how long it stays away; its start comes on top of that.
    """

    def __init__(self, broker: Restartable, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds
        self._said: list[str] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="demo-cut", daemon=True)
        self._error: Exception | None = None
        self.is_on = False

    def begin(self) -> None:
        """Kill the broker now, and bring it back later; only the first call does anything."""
        if self._thread.ident is None:
            self.is_on = True
            self._thread.start()

    def news(self) -> Iterator[str]:
        """Yield what is to be said since the last time.

        Raises:
            StackError: the broker did not come back.
        """
        while self._said:
            yield self._said.pop(0)
        if self._error is not None:
            raise self._error

    def counted(self, records: Callable[[], int]) -> Callable[[], int]:
        """Return a count of records that says what was last known while Kafka is away."""
        last = 0

        def count() -> int:
            nonlocal last
            if not self.is_on:
                last = records()
            return last

        return count

    def close(self) -> None:
        """Bring the broker back at once, if it is away."""
        self._ended.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._broker.kill()
            self._said.append(f"KAFKA KILLED; it stays away for {self._seconds:g} s")
            self._ended.wait(self._seconds)
            self._broker.start()
            self._said.append("Kafka is back; the relay sends what waited in the outbox")
        except Exception as error:  # told by `news`, in the thread that shows the demo
            self._error = error
        finally:
            self.is_on = False
