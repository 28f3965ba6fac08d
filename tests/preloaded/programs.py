"""A folder of our programs for a shell, whose commands are forks: a page types twenty of them.

A program there passes its words, folder, environment and files to the process of the test, which
has a fork run the command, and ends with its code. One that serves until it is told to stop becomes
the installed program in its own process: a shell kills it by its pid.
"""

from __future__ import annotations

import array
import json
import os
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.kit.script import write_script
from tests.preloaded.forks import PYTHON, Forked

INSTALLED = Path(sys.executable).parent
MODULES = {
    "onceward": "onceward",
    "onceward-client": "producer_client",
    "onceward-dlq": "consumer.dlq",
    "onceward-worker": "consumer",
}
# By name and first word: those that end by themselves. All of `onceward-dlq` does.
ENDING = {
    "onceward": ("init", "help"),
    "onceward-client": ("send", "status", "wait"),
    "onceward-worker": ("check", "migrate", "pause", "paused", "resume", "topics"),
}
_MAX_BYTES = 1 << 20
_PROGRAM = """
import array, os, socket, sys

if {ending} and sys.argv[1:2] and sys.argv[1] not in {ending}:
    os.execv({installed!r}, [{installed!r}, *sys.argv[1:]])
import json

wanted = json.dumps([{module!r}, sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as asking:
    asking.connect({address!r})
    files = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))
    asking.sendmsg([wanted], [files])
    answer = asking.recv(16)
sys.exit(int(answer))
"""


@contextmanager
def forked_programs() -> Iterator[Path]:
    """Yield a folder with our programs, which hold as long as the block."""
    # A socket's address is short, and pytest's folders are not.
    with (
        TemporaryDirectory() as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening,
    ):
        address = f"{folder}/asked"
        listening.bind(address)
        listening.listen()
        programs = Path(folder, "programs")
        programs.mkdir()
        for name, module in MODULES.items():
            _write(programs / name, module, address)
        threading.Thread(target=_serve, args=(listening,), name="programs", daemon=True).start()
        try:
            yield programs
        finally:
            listening.shutdown(socket.SHUT_RDWR)


def _write(program: Path, module: str, address: str) -> None:
    text = _PROGRAM.format(
        ending=ENDING.get(program.name, ()),
        installed=str(INSTALLED / program.name),
        address=address,
        module=module,
    )
    # Without site-packages: it starts in a fiftieth of a second.
    write_script(program, text, "-IS")


def _serve(listening: socket.socket) -> None:
    while True:
        try:
            asking, _ = listening.accept()
        except OSError:  # it was shut down
            return
        threading.Thread(target=_answer, args=(asking,), name="program", daemon=True).start()


def _answer(asking: socket.socket) -> None:
    """Run a command; whoever asks for it takes it along when it is killed."""
    with asking:
        one = _fork(asking)
        telling = threading.Thread(target=_tell, args=(asking, one), name="program's end")
        telling.start()
        asking.recv(1)  # nothing comes, but the end of who asks
        one.kill()
        telling.join()


def _fork(asking: socket.socket) -> Forked:
    files = array.array("i")
    raw, ancillary, _, _ = asking.recvmsg(_MAX_BYTES, socket.CMSG_LEN(3 * files.itemsize))
    for _, _, data in ancillary:
        files.frombytes(data)
    module, words, cwd, environ = json.loads(raw)
    try:
        stdin, stdout, stderr = files
        return Forked(
            (*PYTHON, module, *words),
            environ=environ,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=Path(cwd),
        )
    finally:
        for one in files:
            os.close(one)


def _tell(asking: socket.socket, one: Forked) -> None:
    code = one.wait()
    # One that was killed has taken its asker's end, or is told of as a shell would.
    with suppress(BrokenPipeError):
        asking.send(str(code if code >= 0 else 128 - code).encode())
