"""One process of a session, on a pseudo-terminal of its own."""

from __future__ import annotations

import errno
import os
import pty
import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial

from onceward.servers.keeper_process import die_with

CHUNK_BYTES = 65_536


class Member:
    """A process that is killed by the kernel when this one dies.

    It has a session of its own: Ctrl-C reaches us alone, and we stop it in order.

    Args:
        name: shown before its lines.
        argv: its command.
        environ: its environment.

    Attributes:
        file: the descriptor to wait on for its output.
    """

    def __init__(self, name: str, argv: Sequence[str], environ: Mapping[str, str]) -> None:
        self.name = name
        self._partial = b""
        self.file, theirs = pty.openpty()
        try:
            self._process = subprocess.Popen(
                argv,
                env=environ,
                stdin=subprocess.DEVNULL,
                stdout=theirs,
                stderr=theirs,
                start_new_session=True,
                # Its parent has one thread: a death signal is of the thread that forked.
                preexec_fn=partial(die_with, os.getpid(), signal.SIGKILL),
            )
        except BaseException:
            os.close(self.file)
            raise
        finally:
            os.close(theirs)

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """Its exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def lines(self) -> list[str] | None:
        """Read its output once; return the lines that are whole, None after the last."""
        try:
            chunk = os.read(self.file, CHUNK_BYTES)
        except OSError as error:
            if error.errno != errno.EIO:  # nobody has the other end any more
                raise
            rest, self._partial = self._partial, b""
            return [_text(rest)] if rest else None
        *lines, self._partial = (self._partial + chunk).split(b"\n")
        return [_text(one) for one in lines]

    def signal(self, number: int) -> None:
        """Send it a signal; one that has ended hears nothing."""
        self._process.send_signal(number)

    def close(self) -> None:
        """Kill it if it still runs, and forget its output."""
        self._process.kill()
        self._process.wait()
        os.close(self.file)


def _text(line: bytes) -> str:
    return line.decode(errors="replace").rstrip("\r")
