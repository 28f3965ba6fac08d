"""The memory of a process with many threads of which one runs at a time.

Python takes objects of more than 512 bytes from the C library. That of GNU gives each new thread a
heap of its own, up to eight for each processor, and none of them uses the holes of another one.
That lets threads allocate beside each other; those that share Python's lock hardly do, so that one
heap is as fast.
"""

from __future__ import annotations

import ctypes
import os

# `M_ARENA_MAX` of <malloc.h>.
_MOST_HEAPS = -8
# By these an operator says how many heaps a process has.
_VARIABLE = "MALLOC_ARENA_MAX"
_TUNABLE = "glibc.malloc.arena_max="


def share_heap() -> None:
    """Let threads that begin from now on share the heap of the first one.

    Not where the environment says how many heaps there are. A C library without `mallopt`, such as
    musl or that of macOS, has no such heaps.
    """
    if _VARIABLE in os.environ or _TUNABLE in os.environ.get("GLIBC_TUNABLES", ""):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MOST_HEAPS, 1)
