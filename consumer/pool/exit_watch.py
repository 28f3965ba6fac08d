"""How the parent learns of a child's end, and the words for it."""

from __future__ import annotations

import os
import signal
from multiprocessing.context import SpawnProcess
from socket import socket


def exit_fd(process: SpawnProcess, sock: socket) -> int:
    """Return a file that becomes readable when the process ends; the caller closes it.

    A fork of the handler's own may hold the sentinel open, and the socket, beyond the child's
    death; a pidfd knows better. Kernels before 5.3 have none.

    Raises:
        OSError: there is no file left for it; the process has been ended, the socket closed.
    """
    try:
        return os.pidfd_open(process.pid or 0)
    except OSError:
        try:
            return os.dup(process.sentinel)
        except OSError:
            process.kill()
            process.join()
            sock.close()
            raise


def exit_words(exit_code: int | None) -> str:
    """Return how a process ended.

    >>> exit_words(3), exit_words(-9)
    ('exited with code 3', 'killed by SIGKILL')
    """
    if exit_code is None:
        return "ended, and something else has taken its exit code"
    if exit_code >= 0:
        return f"exited with code {exit_code}"
    try:
        return f"killed by {signal.Signals(-exit_code).name}"
    except ValueError:
        return f"killed by signal {-exit_code}"


def of_process(reason: str) -> str:
    """Return the sentence for how a child ended, of a reason like those above.

    >>> of_process("exited with code 0"), of_process("killed by SIGKILL")
    ('its process exited with code 0', 'its process was killed by SIGKILL')
    """
    verb = "was " if reason.startswith("killed") else ""
    return f"its process {verb}{reason}"
