"""A steady stream of requests from a program that knows nothing of Onceward."""

from __future__ import annotations

import threading
from types import TracebackType

from tests.consumer.stage import Stage


class Load:
    """Sends until the block is left; the requests are named by their coordinates.

    Args:
        rate: requests a second, about.
        value: what each asks for.
    """

    def __init__(self, stage: Stage, *, rate: float, value: bytes = b'{"answer":"x"}') -> None:
        self.sent: list[str] = []
        self._stage = stage
        self._pause_s = 1 / rate
        self._value = value
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._pause_s):
            self.sent.append(self._stage.produce(self._value).coordinates_id)
