"""A door between a test and handlers in other processes."""

import fcntl
from pathlib import Path


class Gate:
    """Handlers wait at it until it is opened; it is open for all who come later, too.

    The kernel keeps it, so a handler that is killed at it leaves nothing behind.

    Args:
        file: will be made.
    """

    def __init__(self, file: Path) -> None:
        self.path = str(file)
        self._lock = file.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def open(self) -> None:
        """Let them through; once is enough."""
        self._lock.close()
