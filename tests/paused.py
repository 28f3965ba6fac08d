"""A process that stands still, as after a SIGSTOP or in a frozen cgroup."""

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from sqlalchemy import NullPool, create_engine

from tests.eventually import eventually

STANDS_STILL_WITHIN_S = 10.0
# Of a thread, by the letters of /proc.
STOPPED, ZOMBIE = "T", "Z"


@contextmanager
def paused(pid: int, *, may_end: bool = False) -> Iterator[None]:
    """Stop the process `pid`, all its threads, for the length of the block.

    A signal is only sent by `kill`: a thread that is running goes on until the kernel has
    reached it, so the block begins when each one has been seen stopped.

    Args:
        may_end: it may end by itself before it is reached; its parent stands still already.
    """
    still = {STOPPED, ZOMBIE} if may_end else {STOPPED}
    os.kill(pid, signal.SIGSTOP)
    try:
        eventually(lambda: _states(pid) <= still, timeout_s=STANDS_STILL_WITHIN_S, interval_s=0.001)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@contextmanager
def paused_without_lock(pid: int, database_url: str) -> Iterator[None]:
    """Stop the process `pid` while it does not have SQLite's write lock.

    A process that is stopped with that lock keeps everybody from writing, which is SQLite's own;
    PostgreSQL's locks are given up.
    """
    with ExitStack() as still:
        with _sqlite_lock(database_url):
            still.enter_context(paused(pid))
        yield


@contextmanager
def _sqlite_lock(database_url: str) -> Iterator[None]:
    if not database_url.startswith("sqlite"):
        yield
        return
    with create_engine(database_url, poolclass=NullPool).connect() as connection:
        connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield
        connection.rollback()


def _states(pid: int) -> set[str]:
    return {_state(task) for task in Path(f"/proc/{pid}/task").iterdir()}


def _state(task: Path) -> str:
    # The name before it, in parentheses, may hold anything.
    return (task / "stat").read_text().rpartition(")")[2].split()[0]
