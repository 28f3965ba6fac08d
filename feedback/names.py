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
from concurrent.futures import Future
from typing import Any

from feedback.clock import monotonic_s

# An answer that nobody waited for is used for this long.
FRESH_S = 30.0

Question = tuple[int, str, int, int]
_lock = threading.Lock()
_under_way: dict[Question, tuple[Future[list[Any]], float]] = {}


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
        if answer is None or (answer.done() and monotonic_s() - since_s > FRESH_S):
            answer = Future()
            _under_way[question] = (answer, monotonic_s())
            threading.Thread(
                target=_ask, args=(question, answer), name="onceward-names", daemon=True
            ).start()
    try:
        found = answer.result(within_s)
    except TimeoutError:
        message = f"the name {host} was not resolved within {within_s:g} s"
        raise socket.gaierror(socket.EAI_AGAIN, message) from None
    finally:
        if answer.done():
            with _lock:
                if _under_way.get(question, (None,))[0] is answer:
                    del _under_way[question]
    return found


def _ask(question: Question, answer: Future[list[Any]]) -> None:
    _, host, port, family = question
    try:
        answer.set_result(socket.getaddrinfo(host, port, family, socket.SOCK_STREAM))
    except (OSError, UnicodeError) as error:  # a label that is too long is a UnicodeError
        answer.set_exception(
            error if isinstance(error, OSError) else socket.gaierror(socket.EAI_NONAME, str(error))
        )


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
