"""Starting a child: spawned, never forked, and out of reach of signals to the process group."""

from __future__ import annotations

import os
import signal
import socket
from multiprocessing import get_context, resource_tracker
from multiprocessing.context import SpawnProcess

from consumer.pool import child
from consumer.pool.job import PoolSettings


def spawn(settings: PoolSettings) -> tuple[SpawnProcess, socket.socket]:
    """Start a child and return it with the parent's end of its socket, in non-blocking mode.

    A fork would copy locks that other threads of the parent hold, and its Kafka clients.

    Raises:
        OSError: the operating system refuses another process or file.
    """
    ours, theirs = socket.socketpair()
    process = get_context("spawn").Process(
        target=child.main, args=(theirs, settings, os.getpid()), name="onceward-child"
    )
    try:
        _start_masked(process)
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()  # else the socket would not end with the child
    ours.setblocking(False)
    return process, ours


def _start_masked(process: SpawnProcess) -> None:
    # The tracker inherits these, which else would end it: it ignores only SIGTERM and SIGINT.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, child.LEVEL_SIGNALS)
    try:
        # Before the mask: its start unblocks SIGTERM and SIGINT behind our back (CPython 3.11).
        resource_tracker.ensure_running()
        signal.pthread_sigmask(signal.SIG_BLOCK, child.GROUP_SIGNALS)
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
