"""The process that forks: `python -m tests.preloaded.process FD`, a Unix socket to who asks.

One request is a JSON of a number, argv, cwd and environ, with the files for input, output and
errors beside it. Answers are JSON: who has begun, and who has ended how. The end of the socket ends
it, or that of its parent, of which a fork may hold the socket. What it has forked is killed then:
nobody is left who would end it.
"""

from __future__ import annotations

import array
import atexit
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from multiprocessing import resource_tracker
from typing import Any, NoReturn

from kafka.protocol.api_message import ApiMessage

from onceward.servers.keeper_process import die_with

MAX_REQUEST_BYTES = 1 << 20
# What runs when it is imported: the entries of commands, and the road of migrations.
ENTRIES = (".__main__", ".migrations.env")
# SQLAlchemy imports them when it opens a journal.
DRIVERS = ("sqlalchemy.dialects.sqlite.pysqlite", "sqlalchemy.dialects.postgresql.psycopg")
# What kafka-python does not speak in its newest version.
SPOKEN = {"Fetch": 12, "JoinGroup": 7, "OffsetFetch": 8, "OffsetCommit": 8}
_FILES = 3
_PARENT = os.getppid()
# How soon it sees that its parent has ended.
_PARENT_LOOK_S = 1.0


def main(descriptor: int) -> dict[str, Any] | None:
    """Serve; return what a child is to run, and None when nobody asks any more."""
    asking = socket.socket(fileno=descriptor)
    ended, ends = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(ends, warn_on_full_buffer=False)
    running: dict[int, int] = {}
    ours = os.getpid()
    try:
        while os.getppid() == _PARENT:
            ready, _, _ = select.select([asking.fileno(), ended], [], [], _PARENT_LOOK_S)
            if ended in ready:
                os.read(ended, 4096)
                _tell_ended(asking, running)
            if asking.fileno() in ready:
                raw, files = _receive(asking)
                if not raw:
                    return None
                wanted = json.loads(raw)
                if _is_forked(asking, files, running, wanted["number"]):
                    signal.set_wakeup_fd(-1)
                    for one in (ended, ends):
                        os.close(one)
                    asking.close()
                    return dict(wanted)
        return None
    finally:
        # The others are no children of one that was forked.
        for pid in running if os.getpid() == ours else ():
            os.killpg(pid, signal.SIGKILL)


def run(wanted: dict[str, Any]) -> None:
    """Run a module as `python -m` does."""
    os.chdir(wanted["cwd"])
    os.environ.clear()
    os.environ.update(wanted["environ"])
    module, *arguments = wanted["argv"]
    sys.path[0] = wanted["cwd"]
    sys.argv[1:] = arguments
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def run_and_end(wanted: dict[str, Any]) -> NoReturn:
    """Run it and end as an interpreter does, but free nothing of what was imported.

    Each object is written to when it is freed, so that the kernel copies nearly all memory of
    `process`: 0.14 s of the processor's time.
    """
    code = 0
    try:
        run(wanted)
    except SystemExit as asked:
        if asked.code is not None and not isinstance(asked.code, int):
            raise
        code = asked.code or 0
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what the command itself has left: it may have a word to say
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except OSError:
        sys.exit(code)  # which fails again, and says so
    os._exit(code & 0xFF)


def _receive(asking: socket.socket) -> tuple[bytes, array.array[int]]:
    files = array.array("i")
    room = socket.CMSG_LEN(_FILES * files.itemsize)
    raw, ancillary, _, _ = asking.recvmsg(MAX_REQUEST_BYTES, room)
    for _, _, data in ancillary:
        files.frombytes(data)
    return raw, files


def _is_forked(
    asking: socket.socket, files: array.array[int], running: dict[int, int], number: int
) -> bool:
    """Fork; return whether this is the child, in a session and with files of its own."""
    is_begun, begin = os.pipe()
    ours = os.getpid()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        # Also where we are killed with all of our group, which is no longer its own.
        die_with(ours, signal.SIGKILL)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for standard, one in enumerate(files):
            os.dup2(one, standard)
    else:
        os.close(begin)
        # Its group is there before anybody sends a signal to it.
        os.read(is_begun, 1)
        running[pid] = number
        _say(asking, {"begun": number, "pid": pid})
    for one in (is_begun, *files, *(() if pid else (begin,))):
        os.close(one)
    return pid == 0


def _tell_ended(asking: socket.socket, running: dict[int, int]) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        if pid in running:  # the resource tracker is a child too
            _say(asking, {"ended": running.pop(pid), "code": os.waitstatus_to_exitcode(status)})


def _say(asking: socket.socket, said: dict[str, int]) -> None:
    asking.send(json.dumps(said).encode())


def _compile_messages() -> None:
    """Have kafka-python write its code for all messages: each command would at their first use."""
    for message in _below(ApiMessage):
        kind = message.__name__.removesuffix("Request").removesuffix("Response")
        for version in {message.max_version, SPOKEN.get(kind, message.max_version)} - {None}:
            flexible = message.flexible_version_q(version)
            if message.is_request():
                message._struct.compiled_encode_into(version, flexible, flexible)
            else:
                made = message[None]
                message._struct.compiled_decode_from(version, flexible, flexible, made)


def _below(parent: Any) -> Iterator[Any]:
    for one in parent.__subclasses__():
        yield one
        yield from _below(one)


def _import() -> None:
    """Import all of a command, and of the worker the parts that `run` alone imports."""
    for package in map(importlib.import_module, ("feedback", "producer_client", "consumer")):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not module.name.endswith(ENTRIES):
                importlib.import_module(module.name)
    for module_name in DRIVERS:
        importlib.import_module(module_name)
    _compile_messages()


if __name__ == "__main__":
    gc.disable()
    _import()
    # One for all: each worker would start an interpreter more for its own, which it never asks.
    resource_tracker.ensure_running()
    gc.freeze()
    gc.enable()
    if (asked := main(int(sys.argv[1]))) is not None:
        run_and_end(asked)
