"""Translates a driver's errors into the outbox's; see `feedback.sql.faults`."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from feedback.errors import OncewardError
from feedback.security import of_database
from feedback.sql.faults import NO_PRIVILEGE, FaultKind, sort
from feedback.sql.refusals import NO_TABLE, of_schema
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


def hidden(schema: str) -> OutboxForbidden:
    """Return the error of a user who may not use the schema of the outbox."""
    fault = of_schema(schema, of_database("outbox"))
    return OutboxForbidden(fault.said).because(fault)


def translate(error: DBAPIError, *, seen_in: str = "") -> OncewardError | None:
    """Return the error to raise instead of a driver's; None when it is a fault of this program.

    Args:
        seen_in: the schema in which the tables were seen before. In a transaction that has failed
            nothing can be asked; a right goes more often than a table.
    """
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
        case FaultKind.NO_TABLE if seen_in and state == NO_TABLE:
            return hidden(seen_in)
        case FaultKind.NO_TABLE:
            return OutboxVersionError(None, SCHEMA_VERSION)
        case FaultKind.AWAY | FaultKind.CONTENDED:
            return OutboxUnavailable(fault.reason).because(fault.security)
