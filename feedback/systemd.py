"""What a service tells systemd: that it is ready, what it does, that it lives (sd_notify(3)).

Outside systemd nothing is sent and nothing fails. No library: it is one datagram.
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
# systemd always reads; one that does not must not hold up the service for longer.
SEND_LIMIT_S = 1.0


@dataclass(frozen=True, slots=True)
class Unit:
    """What the service manager asked of this process.

    Attributes:
        address: of the socket that hears it; empty when nobody does.
        watchdog_s: it must hear `WATCHDOG=1` within this many seconds; None when it need not.
    """

    address: str = ""
    watchdog_s: float | None = None

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str], pid: int) -> Self:
        """Return what stands in the environment, and remove it.

        A child that inherited it could speak, or be waited for, in this process's name.

        Args:
            environ: the process's own.
            pid: this process; a watchdog that is meant for another is not ours.

        >>> variables = {"NOTIFY_SOCKET": "/run/n", "WATCHDOG_USEC": "60000000", "HOME": "/"}
        >>> Unit.taken_from(variables, pid=1)
        Unit(address='/run/n', watchdog_s=60.0)
        >>> variables
        {'HOME': '/'}
        """
        address = environ.pop(SOCKET, "")
        usec = environ.pop(WATCHDOG_USEC, "")
        meant_for = environ.pop(WATCHDOG_PID, "") or str(pid)
        # Anything else than a number of microseconds is not systemd's word.
        is_asked = usec.isascii() and usec.isdigit() and int(usec) > 0 and meant_for == str(pid)
        return cls(address, int(usec) / 1_000_000 if is_asked else None)

    def notify(self, *lines: str) -> None:
        """Send assignments such as `READY=1`; whatever hinders that is logged and no fault.

        Args:
            lines: of sd_notify(3), together in one datagram; a line break in one becomes a space.
        """
        if not self.address:
            return
        # "@" stands for the zero byte of a socket that has a name and no file.
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
    """Return what the service manager asked of this process; the first call empties its
    environment of it, so call it before any child is started."""
    return Unit.taken_from(os.environ, os.getpid())


def notify(*lines: str) -> None:
    """Tell systemd what these lines say, when it started this process; see `Unit.notify`."""
    unit().notify(*lines)
