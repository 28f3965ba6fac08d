"""A terminal: one shell that types the commands of a page, so that `$!` and variables are there."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

# An audit on a busy machine.
COMMAND_LIMIT_S = 400.0
_END = "--- the command has ended"


class TooSlow(Exception):
    """A command took too long; says what it has printed."""


class Terminal:
    """A shell in a folder, with all that it starts in its process group."""

    def __init__(self, folder: Path, environ: Mapping[str, str]) -> None:
        self._shell = subprocess.Popen(
            ("bash", "--noprofile", "--norc"),
            cwd=folder,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self._printed: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def run(self, line: str) -> str:
        """Type a command; return its output when it has ended.

        Raises:
            TooSlow: it does not end.
        """
        self.start(line)
        self._type(f"echo; echo '{_END}'")
        said = self.await_(lambda text: f"\n{_END}\n" in text)
        return said.partition(f"\n{_END}\n")[0]

    def start(self, line: str) -> None:
        """Type a command and do not wait for its end; it shall not read the commands behind it."""
        self._type(f"{{ {line}\n}} < /dev/null")

    def await_(self, is_there: Callable[[str], bool]) -> str:
        """Return the output since the last call when it is as wanted.

        Raises:
            TooSlow: it does not come.
        """
        text, until = "", time.monotonic() + COMMAND_LIMIT_S
        while not is_there(text):
            try:
                text += self._printed.get(timeout=max(0, until - time.monotonic()))
            except queue.Empty:
                raise TooSlow(text) from None
        return text

    def close(self) -> None:
        """End the shell and all that it has started, which gets time to stop."""
        os.killpg(self._shell.pid, signal.SIGTERM)
        try:
            self._shell.wait(COMMAND_LIMIT_S)
        finally:
            self._reader.join(COMMAND_LIMIT_S)
            if self._reader.is_alive():  # something still has its output
                os.killpg(self._shell.pid, signal.SIGKILL)
                self._reader.join()
            for stream in (self._shell.stdin, self._shell.stdout):
                if stream is not None:
                    stream.close()

    def _type(self, text: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(f"{text}\n")
        self._shell.stdin.flush()

    def _read(self) -> None:
        assert self._shell.stdout is not None
        for line in self._shell.stdout:
            self._printed.put(line)
