"""The child process: it imports the handlers, says that it is ready, and serves its socket.

Lifespans are entered before it is ready, and left after it was asked to end, when it is idle.

It outlives no parent: the kernel kills it when the thread that made it ends, and the end of its
socket ends it too. It ignores SIGTERM, SIGINT and SIGHUP, which come to the whole process group: a
person who drains the parent wants the running requests finished. SIGUSR1 and SIGUSR2, which change
the level of the logs, are the parent's too: it sends the level.
"""

from __future__ import annotations

import ctypes
import io
import os
import signal
import sys
from socket import socket
from types import FrameType

from consumer.handlers.fingerprint import digest
from consumer.handlers.lifespan import DECLARED_LIFESPANS
from consumer.handlers.registry import HandlerRegistry
from consumer.pool.coroutines import EventLoopThread
from consumer.pool.effects import Effects
from consumer.pool.fatal import ends_child
from consumer.pool.frames import FrameDecoder
from consumer.pool.job import PoolSettings
from consumer.pool.lifespans import ChildLifespans
from consumer.pool.outbox import Outbox
from consumer.pool.outcome import describe
from consumer.pool.runs import Runs
from consumer.pool.slots import Slots
from consumer.pool.wire import pack_failure, pack_ready, unpack_jobs
from feedback import logs
from feedback.errors import OncewardError

FAILED_EXIT_CODE = 2

_PR_SET_PDEATHSIG = 1
# A terminal, or a service manager, may send these to all processes of a group.
GROUP_SIGNALS = frozenset(
    {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
)
LEVEL_SIGNALS = frozenset({signal.SIGUSR1, signal.SIGUSR2})
_CHUNK_BYTES = 65536


def main(sock: socket, settings: PoolSettings, parent_pid: int) -> None:
    """Serve until asked to stop; the entry point of `multiprocessing.Process`.

    Args:
        sock: this child's end; the parent has the other.
        settings: the modules to import and the number of slots.
        parent_pid: the process that must be alive.
    """
    _die_with_parent(parent_pid)
    sock.set_inheritable(False)
    # A fork of the handler's own must not hold this socket open, nor write to it.
    os.register_at_fork(after_in_child=sock.close)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)  # printed lines survive a kill
    logs.configure(level=settings.log_level)
    outbox = Outbox(sock)
    effects = Effects(outbox)
    loop = EventLoopThread()
    lifespans = ChildLifespans(DECLARED_LIFESPANS, loop)
    try:
        registry = HandlerRegistry.load(settings.handlers, group=settings.group)
        runs = Runs(registry=registry, settings=settings, effects=effects)
        lifespans.enter()
    except (OncewardError, ImportError) as error:
        sock.sendall(pack_failure(describe(error)))
        lifespans.leave()
        sys.exit(FAILED_EXIT_CODE)
    _survive_group_signals()
    slots = Slots(limit=settings.slots_per_process, runner=runs, outbox=outbox, loop=loop)
    sock.sendall(pack_ready(digest(registry.handlers)))
    _serve(sock, slots, effects)
    lifespans.leave()


@ends_child
def _serve(sock: socket, slots: Slots, effects: Effects) -> None:
    decoder = FrameDecoder()
    while chunk := _receive(sock):
        jobs = []
        for frame in decoder.feed(chunk):
            header, _ = frame
            if "jobs" in header:
                jobs += unpack_jobs(frame)
            elif "log_level" in header:
                logs.set_level(header["log_level"])
            elif "effect" in header:
                effects.answer(*header["effect"])
            else:
                return
        if jobs:
            slots.accept(jobs)
    os._exit(0)  # the parent is gone; runs in threads must not outlive it


def _receive(sock: socket) -> bytes:
    try:
        return sock.recv(_CHUNK_BYTES)
    except ConnectionError:
        return b""


def _die_with_parent(parent_pid: int) -> None:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent_pid:  # it died before the kernel was told
        os._exit(0)


def _survive_group_signals() -> None:
    """Take the group's signals and do nothing; the parent blocked them before it made us.

    Functions, because a process that a handler starts would inherit SIG_IGN. After the import,
    because the user's modules may have set their own.
    """

    def stay(number: int, frame: FrameType | None) -> None:
        """Do nothing: the signal was meant for the parent."""

    for number in GROUP_SIGNALS:
        # A user's module may have taken one of these for a use of its own.
        if number not in LEVEL_SIGNALS or signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, stay)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, GROUP_SIGNALS)
