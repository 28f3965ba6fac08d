"""Where each thread stands, without a single value: for the log of a stall."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from pathlib import PurePath
from types import FrameType

MAX_THREADS = 64
MAX_FRAMES = 12


def thread_stacks() -> list[str]:
    """Return one line a thread, `name: place < its caller < …`, innermost first.

    Only files, lines and functions: locals may be payloads. Bounded in threads and depth.

    >>> thread_stacks()[0].split(":")[0]
    'MainThread'
    """
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    main = threading.main_thread().ident
    frames = sorted(sys._current_frames().items(), key=lambda one: one[0] != main)
    return [
        f"{names.get(ident, 'a foreign thread')}: " + " < ".join(_places(frame))
        for ident, frame in frames[:MAX_THREADS]
    ]


def _places(frame: FrameType | None) -> Iterator[str]:
    for _ in range(MAX_FRAMES):
        if frame is None:
            return
        code = frame.f_code
        file = PurePath(*PurePath(code.co_filename).parts[-2:])
        yield f"{file}:{frame.f_lineno} {code.co_qualname}"
        frame = frame.f_back
    if frame is not None:
        yield "…"
