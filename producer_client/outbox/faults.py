"""Translates a driver's errors into the outbox's; see `feedback.sql.faults`."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from feedback.errors import OncewardError
from feedback.sql.faults import NO_PRIVILEGE, FaultKind, sort
from producer_client.outbox.errors import (
    NoTransaction,
    OutboxForbidden,
    OutboxUnavailable,
    OutboxVersionError,
    RowRefused,
)
from producer_client.outbox.tables import SCHEMA_VERSION

# PostgreSQL's code for a transaction in which a statement failed before.
_FAILED_BEFORE = "25P02"


def translate(error: DBAPIError) -> OncewardError | None:
    """Return the error to raise instead of a driver's; None when it is a fault of this program."""
    fault = sort(error, "outbox")
    if fault is None:
        return None
    state = getattr(error.orig, "sqlstate", None)
    if state == _FAILED_BEFORE:
        return NoTransaction(
            f"a statement of this transaction has failed before ({fault.reason}): roll it back "
            "and begin again; what may fail alone belongs in a savepoint (begin_nested)"
        )
    if state == NO_PRIVILEGE:
        return OutboxForbidden(fault.reason).because(fault.security)
    match fault.kind:
        case FaultKind.REFUSED:
            return RowRefused(fault.reason)
        case FaultKind.NO_TABLE:
            return OutboxVersionError(None, SCHEMA_VERSION)
        case FaultKind.AWAY | FaultKind.CONTENDED:
            return OutboxUnavailable(fault.reason).because(fault.security)
