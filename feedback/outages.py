"""Logs outages, and faults of security under a name of their own.

A fault of security is no outage: a server is there, and a person has to act.
"""

from __future__ import annotations

from feedback.errors import NotAvailable, SecurityKind
from feedback.logs import EventLog

REFUSED = "access.refused"


def log_outage(log: EventLog, event: str, error: NotAvailable | str, **fields: object) -> None:
    """Log an outage as `event`; a fault of security as `access.refused`, with server and fault.

    Args:
        error: its cause; a text where nothing else is known.
    """
    fault = None if isinstance(error, str) else error.fault
    if fault is None:
        log.warning(event, reason=str(error), **fields)
        return
    named = {"server": fault.server, "fault": str(fault.kind)}
    log.error(REFUSED, **named, reason=str(error), **fields)


class OutageLog:
    """Logs an outage once, once more when its cause is another one, and its end.

    Args:
        away, back: the events of its beginning and its end.
    """

    def __init__(self, log: EventLog, away: str, back: str) -> None:
        self._log = log
        self._away = away
        self._back = back
        self._kind: SecurityKind | None = None
        self.is_on = False

    def begins(self, error: NotAvailable, **fields: object) -> None:
        """Note that the server could not be used."""
        kind = None if error.fault is None else error.fault.kind
        # While a fault of security lasts, a connection may also end without a word.
        if not self.is_on or (kind is not None and kind is not self._kind):
            log_outage(self._log, self._away, error, **fields)
            self._kind = kind
        self.is_on = True

    def ends(self, **fields: object) -> None:
        """Note that the server could be used."""
        if self.is_on:
            self._log.info(self._back, **fields)
        self._kind, self.is_on = None, False
