"""Free loopback ports."""

import random
import socket
from pathlib import Path

HOST = "127.0.0.1"
LOWEST = 10_000
_EPHEMERAL = Path("/proc/sys/net/ipv4/ip_local_port_range")
_given: set[int] = set()


def free_port() -> int:
    """Return a loopback port nobody listens on at this moment, and each only once.

    Chosen below the range the kernel takes outgoing connections from: a port from that range can
    be gone again before the server binds it, and a server that is restarted would not get its own
    back. Two stacks can still choose the same one; `launch` starts such a server again.
    """
    for port in random.sample(_range(), k=200):
        if port not in _given and _is_free(port):
            _given.add(port)
            return port
    raise OSError(f"no free port among 200 tried on {HOST}")


def _range() -> range:
    try:
        first_ephemeral = int(_EPHEMERAL.read_text().split()[0])
    except FileNotFoundError:
        first_ephemeral = 32_768
    # A machine that hands out nearly everything leaves no room below: then share with it.
    return range(LOWEST, first_ephemeral if first_ephemeral > LOWEST + 2_000 else 65_536)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True
