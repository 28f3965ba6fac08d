"""Our side: processes that were forked, with the words of `subprocess`."""

from __future__ import annotations

import array
import atexit
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Union

ROOT = Path(__file__).parents[2]
PYTHON = (sys.executable, "-m")


def _for_interpreter(environ: Mapping[str, str]) -> dict[str, str]:
    """Return what an interpreter reads at its start alone."""
    return {name: value for name, value in environ.items() if name.startswith("PYTHON")}


def _others() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


# As it was before any test changed it.
PRELOADED = _for_interpreter(os.environ)


Process = Union["Forked", "subprocess.Popen[bytes]"]


def start(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
) -> Process:
    """Start a command in a session of its own: as a fork, or where that says less on its own.

    Args:
        stdin, stdout, stderr: descriptors of files; None for nothing.
    """
    if _for_interpreter(environ) != PRELOADED:
        nothing = subprocess.DEVNULL
        return subprocess.Popen(
            argv,
            cwd=ROOT,
            env=environ,
            stdin=nothing if stdin is None else stdin,
            stdout=nothing if stdout is None else stdout,
            stderr=nothing if stderr is None else stderr,
            start_new_session=True,
        )
    return Forked(argv, environ=environ, stdin=stdin, stdout=stdout, stderr=stderr)


class Forked:
    """A command that runs, as `subprocess.Popen` in a session of its own.

    Args:
        argv: this interpreter, "-m", a module of ours, and its arguments.
        stdin, stdout, stderr: descriptors of files; None for nothing.
        of: the process that forks it; by default the one that all share.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        environ: Mapping[str, str],
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        cwd: Path = ROOT,
        of: Preloaded | None = None,
    ) -> None:
        self.args = tuple(argv)
        self._preloaded = of or _preloaded()
        with Path(os.devnull).open("r+b") as nothing:
            files = [nothing.fileno() if one is None else one for one in (stdin, stdout, stderr)]
            self._number, self.pid = self._preloaded.fork(self.args, environ, cwd, files)

    @property
    def returncode(self) -> int | None:
        """Its exit code, negative for the signal that ended it; None while it runs."""
        return self._preloaded.code(self._number)

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code when it has ended.

        Raises:
            subprocess.TimeoutExpired: it has not by then.
        """
        code = self._preloaded.wait(self._number, timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill it, if it still runs."""
        self.send_signal(signal.SIGKILL)


def run(
    argv: Sequence[str],
    *,
    environ: Mapping[str, str],
    timeout_s: float,
    cwd: Path = ROOT,
    of: Preloaded | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, without input, and return what it has printed.

    Args:
        of: the process that forks it; by default the one that all share.

    Raises:
        subprocess.TimeoutExpired: it has not ended by then, and was killed.
    """
    if _for_interpreter(environ) != PRELOADED:
        return subprocess.run(
            argv,
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = Forked(
            argv,
            environ=environ,
            stdout=out.fileno(),
            stderr=errors.fileno(),
            cwd=cwd,
            of=of,
        )
        try:
            code = process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(process.args, code, *said)


class Preloaded:
    """The process that forks, and what it says. Safe to share between threads.

    Args:
        before: words before its command, of a program that becomes it.
        without: variables that it does not have.
    """

    def __init__(self, *before: str, without: Sequence[str] = ()) -> None:
        environ = {**_others(), **PRELOADED}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                (*before, *PYTHON, "tests.preloaded.process", str(theirs.fileno())),
                cwd=ROOT,
                env={name: environ[name] for name in environ.keys() - {*without}},
                stdin=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        self._asking = ours
        self._turn = threading.Lock()
        self._changed = threading.Condition()
        self._numbers = itertools.count()
        self._begun: dict[int, int] = {}
        self._codes: dict[int, int] = {}
        self._is_gone = False
        threading.Thread(target=self._hear, name="preloaded", daemon=True).start()
        atexit.register(self.close)

    def fork(
        self, argv: Sequence[str], environ: Mapping[str, str], cwd: Path, files: Sequence[int]
    ) -> tuple[int, int]:
        assert tuple(argv[:2]) == PYTHON, argv
        number = next(self._numbers)
        wanted = {"number": number, "argv": argv[2:], "environ": dict(environ), "cwd": str(cwd)}
        rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))
        with self._turn:
            self._asking.sendmsg([json.dumps(wanted).encode()], [rights])
        with self._changed:
            self._changed.wait_for(lambda: number in self._begun or self._is_gone)
            return number, self._begun.pop(number)

    def code(self, number: int) -> int | None:
        return self._codes.get(number)

    def wait(self, number: int, timeout_s: float | None) -> int | None:
        with self._changed:
            self._changed.wait_for(lambda: number in self._codes or self._is_gone, timeout_s)
            return self._codes.get(number)

    def _hear(self) -> None:
        while raw := self._asking.recv(4096):
            said = json.loads(raw)
            with self._changed:
                if "begun" in said:
                    self._begun[said["begun"]] = said["pid"]
                else:
                    self._codes[said["ended"]] = said["code"]
                self._changed.notify_all()
        with self._changed:
            self._is_gone = True
            self._changed.notify_all()

    def close(self) -> None:
        """End the process, and what it has forked."""
        atexit.unregister(self.close)
        self._asking.shutdown(socket.SHUT_RDWR)
        self._process.wait(60)
        self._asking.close()


@lru_cache(maxsize=1)
def _preloaded() -> Preloaded:
    return Preloaded()
