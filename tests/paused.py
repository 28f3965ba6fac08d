"""A process that stands still, as after a SIGSTOP or in a frozen cgroup."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.eventually import eventually

STANDS_STILL_WITHIN_S = 10.0


@contextmanager
def paused(pid: int) -> Iterator[None]:
    """Stop the process `pid`, all its threads, for the length of the block.

    A signal is only sent by `kill`: a thread that is running goes on until the kernel has
    reached it, so the block begins when each one has been seen stopped.
    """
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: _stands_still(pid), timeout_s=STANDS_STILL_WITHIN_S, interval_s=0.001)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def _stands_still(pid: int) -> bool:
    return all(_state(task) == "T" for task in Path(f"/proc/{pid}/task").iterdir())


def _state(task: Path) -> str:
    # The name before it, in parentheses, may hold anything.
    return (task / "stat").read_text().rpartition(")")[2].split()[0]
