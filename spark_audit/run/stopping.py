"""SIGTERM as Ctrl-C: the holder of a lock gives it back.

Kubernetes and systemd stop a program by it, and Python would end at once: on a file system of
Hadoop's the lock would stay behind.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopping_in_order() -> Iterator[None]:
    """Handle SIGTERM as SIGINT, which Spark takes over once it has started."""
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(number: int, frame: FrameType | None) -> None:
    signal.raise_signal(signal.SIGINT)
