"""Requests at a steady rate while something happens."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

from feedback.clock import monotonic_s


class Load:
    """Sends from a thread of its own for the length of a block.

    Args:
        send: sends one; gets its number, from 0 on. While one takes longer than its share of a
            second nothing is made up for: what a fault held up does not come all at once after it.
        rate_per_s: how many are begun in a second.
    """

    def __init__(self, send: Callable[[int], object], *, rate_per_s: float) -> None:
        self._send_one = send
        self._pause_s = 1 / rate_per_s
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._send_on, name="load")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ending.set()
        self._thread.join()

    def _send_on(self) -> None:
        number, due_s = 0, monotonic_s() + self._pause_s
        while not self._ending.wait(max(0.0, due_s - monotonic_s())):
            self._send_one(number)
            number += 1
            due_s = max(due_s + self._pause_s, monotonic_s())
