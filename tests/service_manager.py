"""The part of systemd that a test plays: the notify socket of a unit."""

import select
import socket
import time
import uuid
from types import TracebackType
from typing import Self

NOTICE_LIMIT_S = 60.0


class NotifySocket:
    """Hears what a service tells its manager, in order.

    Args:
        watchdog_s: how soon it wants to hear again; None when it does not want to.
    """

    def __init__(self, *, watchdog_s: float | None = None) -> None:
        # An abstract name: a path of pytest's may be too long for a socket.
        self._name = f"onceward-test-{uuid.uuid4().hex}"
        self._watchdog_s = watchdog_s
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + self._name)
        self.heard: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    @property
    def variables(self) -> dict[str, str]:
        """The environment that the service is started with."""
        asked = {"NOTIFY_SOCKET": f"@{self._name}"}
        if self._watchdog_s is not None:
            asked["WATCHDOG_USEC"] = str(int(self._watchdog_s * 1_000_000))
        return asked

    def hear(self, timeout_s: float) -> list[str]:
        """Return the lines of the next notice; none when there is none in time."""
        if not select.select([self._socket], [], [], max(0.0, timeout_s))[0]:
            return []
        lines = self._socket.recv(65_536).decode().split("\n")
        self.heard += lines
        return lines

    def wait_for(self, line: str, *, times: int = 1, timeout_s: float = NOTICE_LIMIT_S) -> None:
        """Return when this line has been heard so many times from now on.

        Raises:
            TimeoutError: it has not.
        """
        deadline_s = time.monotonic() + timeout_s
        while times > 0:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"{line} not heard in {timeout_s:g} s, but {self.heard}")
            times -= self.hear(left_s).count(line)

    def empty(self) -> None:
        """Hear all that has been sent."""
        while self.hear(0.0):
            pass
