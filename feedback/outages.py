"""Logs outages, and faults of security under a name of their own.

A fault of security is no outage: a server is there, and a person has to act.
"""

from __future__ import annotations

from feedback.errors import NotAvailable, SecurityFault
from feedback.logs import EventLog

REFUSED = "access.refused"
# Of one outage. Texts of servers may differ at each call.
MOST_FAULTS = 20


def log_outage(log: EventLog, event: str, error: NotAvailable | str, **fields: object) -> None:
    """Log an outage as `event`; a fault of security as `access.refused`, with server and fault.

    Args:
        error: its cause; a text where nothing else is known.
    """
    fault = None if isinstance(error, str) else error.fault
    if fault is None:
        log.warning(event, reason=str(error), **fields)
        return
    log.error(REFUSED, **fault_fields(fault), reason=str(error), **fields)


def fault_fields(fault: SecurityFault | None) -> dict[str, str]:
    """Return the fields by which an event names a fault of security; none for an outage."""
    return {} if fault is None else {"server": fault.server, "fault": str(fault.kind)}


class OutageLog:
    """Logs an outage once, once more when its cause is another one, and its end.

    Args:
        away, back: the events of its beginning and its end.

    Attributes:
        refusal: the fault of security that it is, in a sentence; empty for an outage.
    """

    def __init__(self, log: EventLog, away: str, back: str) -> None:
        self._log = log
        self._away = away
        self._back = back
        self._said: set[SecurityFault] = set()
        self.is_on = False
        self.refusal = ""

    def begins(self, error: NotAvailable, **fields: object) -> None:
        """Note that the server could not be used."""
        # While a fault of security lasts, a connection may also end without a word; and two rights
        # may be missing, of which each call names one.
        is_new = error.fault is not None and error.fault not in self._said
        if not self.is_on or (is_new and len(self._said) < MOST_FAULTS):
            log_outage(self._log, self._away, error, **fields)
        if error.fault is not None:
            if is_new and len(self._said) < MOST_FAULTS:
                self._said.add(error.fault)
            self.refusal = str(error)
        self.is_on = True

    def ends(self, **fields: object) -> None:
        """Note that the server could be used."""
        if self.is_on:
            self._log.info(self._back, **fields)
        self._said.clear()
        self.is_on, self.refusal = False, ""
