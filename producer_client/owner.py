"""The process that a client belongs to: threads and connections do not survive a fork."""

from __future__ import annotations

import os

from feedback.errors import ExitCode, OncewardError

CLOSED = "the client is closed"
FORKED = "the client was used before a fork: make one per process, after the fork"


class ClientClosed(OncewardError):
    """The client was closed, and does nothing any more."""

    entry = "error-clientclosed"


class ClientForked(OncewardError):
    """The client was used in the process that this one was forked from, and is of no use here."""

    exit_code = ExitCode.USAGE
    entry = "error-clientforked"


class ClientProcess:
    """The process of a client: that of its first call, not the one that made it. A client that is
    only made before a fork, as by `gunicorn --preload`, has opened nothing yet."""

    def __init__(self) -> None:
        self._pid: int | None = None

    @property
    def is_other(self) -> bool:
        """Whether the client was used, and in another process."""
        return self._pid not in (None, os.getpid())

    def require(self) -> None:
        """Return when this process may use the client, which is its own from now on.

        Raises:
            ClientForked: another one has used it before.
        """
        if self.is_other:
            raise ClientForked(FORKED)
        self._pid = os.getpid()
