"""Bytes sent to a server, and all that it answers."""

import socket
from collections.abc import Sequence


def exchanged(line: socket.socket, parts: Sequence[bytes]) -> bytes:
    """Return all that a server answers to these parts, whose end is that of the request.

    Raises:
        TimeoutError: it does not end in the time limit of the connection.
    """
    answer = b""
    try:
        for part in parts:
            line.sendall(part)
        line.shutdown(socket.SHUT_WR)
        while read := line.recv(65_536):
            answer += read
    except TimeoutError:
        raise
    except OSError:
        pass  # it has closed before it read all
    return answer
