"""Notifications to systemd: ready, status text, watchdog (sd_notify(3)).

Outside systemd nothing is sent and nothing fails. No library: a notification is one datagram.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import cache
from typing import Self

from feedback.logs import EventLog

log = EventLog("onceward.systemd")

SOCKET = "NOTIFY_SOCKET"
WATCHDOG_USEC = "WATCHDOG_USEC"
WATCHDOG_PID = "WATCHDOG_PID"
# systemd always reads. A manager that does not may hold up the service no longer.
SEND_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Unit:
    """The service manager's socket and watchdog period for this process.

    Attributes:
        address: of the manager's socket; empty without a manager.
        watchdog_s: the longest time between two `WATCHDOG=1`, in seconds; None without a watchdog.
    """

    address: str = ""
    watchdog_s: float | None = None

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str], pid: int) -> Self:
        """Return the unit that the environment describes, and remove its variables.

        A child that inherited them could notify in this process's name, or be waited for.

        Args:
            environ: the environment of this process.
            pid: of this process; a watchdog for another pid is ignored.

        >>> variables = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "60000000", "HOME": "/"}
        >>> Unit.taken_from(variables, pid=1)
        Unit(address='/run/n', watchdog_s=60.0)
        >>> variables
        {'HOME': '/'}
        """
        address = environ.pop(SOCKET, "")
        usec = environ.pop(WATCHDOG_USEC, "")
        meant_for = environ.pop(WATCHDOG_PID, "") or str(pid)
        # systemd writes nothing but a number of microseconds.
        is_asked = usec.isascii() and usec.isdigit() and int(usec) > 0 and meant_for == str(pid)
        return cls(address, int(usec) / 1_000_000 if is_asked else None)

    def notify(self, *lines: str) -> None:
        """Send assignments of sd_notify(3), as `READY=1`; a failure is logged, not raised.

        Args:
            lines: the assignments, sent in one datagram; a line break in one becomes a space.
        """
        if not self.address:
            return
        # "@" stands for the zero byte that begins the name of an abstract socket.
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        message = "\n".join(line.replace("\n", " ") for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.settimeout(SEND_LIMIT_S)
                sender.sendto(message.encode("utf-8", "replace"), address)
        except OSError as error:
            log.warning("systemd.not_told", reason=str(error))


@cache
def unit() -> Unit:
    """Return the unit of this process.

    The first call removes its variables from the environment: call it before any child starts.
    """
    return Unit.taken_from(os.environ, os.getpid())


def notify(*lines: str) -> None:
    """Send assignments to systemd when it started this process; see `Unit.notify`."""
    unit().notify(*lines)
