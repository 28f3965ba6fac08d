"""Host names resolved in bounded time: the system's resolver may take half a minute.

A thread asks the resolver. A caller whose time is over gets an error; the next caller for the same
name takes the answer that the thread has found since. So a slow resolver costs time, but no name
stays out of reach.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from typing import Any

from feedback.clock import monotonic_s
from feedback.wakeups import Wakeups, begin

# An answer that nobody waited for is used for this long.
FRESH_S = 30.0

Question = tuple[int, str, int, int]
_lock = threading.Lock()
_under_way: dict[Question, tuple[_Answer, float]] = {}


def addresses(host: str, port: int, family: int, *, within_s: float) -> list[Any]:
    """Return the answer of `socket.getaddrinfo` for a stream to this host and port.

    Args:
        within_s: the longest wait, in seconds.

    Raises:
        socket.gaierror: there is no such name, or no answer came in time.
    """
    if _is_address(host):
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    # The process id: a fork takes no thread along.
    question = (os.getpid(), host, port, family)
    with _lock:
        answer, since_s = _under_way.get(question, (None, 0.0))
        if answer is None or (answer.is_known and monotonic_s() - since_s > FRESH_S):
            answer = _Answer()
            thread = threading.Thread(
                target=answer.ask, args=question[1:], name="onceward-names", daemon=True
            )
            # A signal handler that raises here leaves no question that nobody asks.
            begin(thread)
            _under_way[question] = (answer, monotonic_s())
    try:
        found = answer.wait(within_s)
    finally:
        if answer.is_known:
            with _lock:
                if _under_way.get(question, (None,))[0] is answer:
                    del _under_way[question]
    if found is None:
        message = f"the name {host} was not resolved within {within_s:g} s"
        raise socket.gaierror(socket.EAI_AGAIN, message)
    if isinstance(found, OSError):
        raise found
    return found


class _Answer:
    """The answer to a question. No lock of a `Future`, which an interrupted caller may keep."""

    def __init__(self) -> None:
        self._found: list[Any] | OSError | None = None
        self._known = Wakeups()

    @property
    def is_known(self) -> bool:
        return self._found is not None

    def wait(self, timeout_s: float) -> list[Any] | OSError | None:
        self._known.wait_for(lambda: self.is_known, timeout_s)
        return self._found

    def ask(self, host: str, port: int, family: int) -> None:
        try:
            self._found = socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
        except OSError as error:
            self._found = error
        except UnicodeError as error:  # a label that is too long
            self._found = socket.gaierror(socket.EAI_NONAME, str(error))
        self._known.notify()


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
