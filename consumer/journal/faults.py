"""Turns the errors of a driver into the journal's; see `feedback.sql.faults`."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from consumer.journal.errors import (
    Contended,
    DataRefused,
    JournalUnavailable,
    JournalVersionError,
)
from consumer.journal.tables import SCHEMA_VERSION
from feedback.errors import OncewardError
from feedback.sql.faults import FaultKind, sort


def translate(error: DBAPIError) -> OncewardError | None:
    """Return the error to raise in place of a driver's; None when it is a fault of this program.

    Args:
        error: SQLAlchemy's error; `error.orig` is the driver's own.
    """
    fault = sort(error, "journal")
    if fault is None:
        return None
    match fault.kind:
        case FaultKind.REFUSED:
            return DataRefused(fault.reason)
        case FaultKind.CONTENDED:
            return Contended(fault.reason)
        case FaultKind.NO_TABLE:
            return JournalVersionError(None, SCHEMA_VERSION)
        case FaultKind.AWAY:
            return JournalUnavailable(fault.reason).because(fault.security)
