"""Names of hosts made addresses in bounded time: the system's resolver may take half a minute.

A thread asks; who has waited in vain is told so, and whoever asks for the same name next takes up
what that thread has found meanwhile. So a slow resolver costs time, and no name is out of reach.
"""

from __future__ import annotations

import ipaddress
import os
import socket
import threading
from concurrent.futures import Future
from typing import Any

from feedback.clock import monotonic_s

# What was found for somebody who did not wait for it.
FRESH_S = 30.0

Asked = tuple[int, str, int, int]
_lock = threading.Lock()
_under_way: dict[Asked, tuple[Future[list[Any]], float]] = {}


def addresses(host: str, port: int, family: int, *, within_s: float) -> list[Any]:
    """Return what `socket.getaddrinfo` says of a stream to there.

    Raises:
        socket.gaierror: there is no such name, or nobody answered in time.
    """
    if _is_address(host):
        return socket.getaddrinfo(host, port, family, socket.SOCK_STREAM)
    # A fork takes no thread along.
    asked = (os.getpid(), host, port, family)
    with _lock:
        answer, since_s = _under_way.get(asked, (None, 0.0))
        if answer is None or (answer.done() and monotonic_s() - since_s > FRESH_S):
            answer = Future()
            _under_way[asked] = (answer, monotonic_s())
            threading.Thread(
                target=_ask, args=(asked, answer), name="onceward-names", daemon=True
            ).start()
    try:
        found = answer.result(within_s)
    except TimeoutError:
        said = f"no answer within {within_s:g} s to what {host} is"
        raise socket.gaierror(socket.EAI_AGAIN, said) from None
    finally:
        if answer.done():
            with _lock:
                if _under_way.get(asked, (None,))[0] is answer:
                    del _under_way[asked]
    return found


def _ask(asked: Asked, answer: Future[list[Any]]) -> None:
    _, host, port, family = asked
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
