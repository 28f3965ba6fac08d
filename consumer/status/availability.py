"""Whether a server is away, as those who use it find: one log line for its going and coming."""

from __future__ import annotations

import threading

from feedback.errors import NotAvailable
from feedback.logs import EventLog
from feedback.outages import OutageLog

log = EventLog("onceward.outage")


class ServerOutage:
    """Safe to share between threads.

    A server is away for as long as one of its users cannot do its work: a full Redis takes
    heartbeats and no statuses, and must not seem to come and go.

    Args:
        server: as in `redis.away` and `redis.back`.
    """

    def __init__(self, server: str) -> None:
        self._log = OutageLog(log, f"{server}.away", f"{server}.back")
        self._users: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_on(self) -> bool:
        """Whether the server is away."""
        return bool(self._users)

    @property
    def refusal(self) -> str:
        """The fault of security for which it cannot be used, in a sentence; empty without one."""
        return self._log.refusal

    def begins(self, user: str, error: NotAvailable) -> None:
        """Note that `user` cannot use the server; the first of an outage is logged."""
        with self._lock:
            self._log.begins(error)
            self._users.add(user)

    def ends(self, user: str) -> None:
        """Note that `user` can use the server; logged when it was the last who could not."""
        if not self._users:
            return
        with self._lock:
            if user in self._users:
                self._users.remove(user)
                if not self._users:
                    self._log.ends()
