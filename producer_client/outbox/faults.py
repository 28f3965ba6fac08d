"""Makes the outbox' errors of what a driver raises; see `feedback.sql.faults`."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from feedback.errors import OncewardError
from feedback.sql.faults import FaultKind, sort
from producer_client.outbox.errors import OutboxUnavailable, OutboxVersionError, RowRefused
from producer_client.outbox.tables import SCHEMA_VERSION


def translate(error: DBAPIError) -> OncewardError | None:
    """Return the error to raise in place of a driver's; None when it is a fault of this program."""
    fault = sort(error)
    if fault is None:
        return None
    match fault.kind:
        case FaultKind.REFUSED:
            return RowRefused(fault.reason)
        case FaultKind.NO_TABLE:
            return OutboxVersionError(None, SCHEMA_VERSION)
        case FaultKind.AWAY | FaultKind.CONTENDED:
            return OutboxUnavailable(fault.reason)
