"""Turns the errors of a driver into the journal's; see `feedback.sql.faults`."""

from __future__ import annotations

from sqlalchemy.exc import DBAPIError

from consumer.journal.tables import SCHEMA_VERSION
from feedback.errors import OncewardError, SettingsError
from feedback.sql.errors import DatabaseUnavailable, ValuesRefused, WrongVersion
from feedback.sql.faults import FaultKind, sort


class JournalUnavailable(DatabaseUnavailable):
    """The journal's database is away, or was lost before it confirmed the commit.

    Whether the last batch was committed is unknown: the caller repeats the same batch, which is
    harmless.
    """

    database = "the journal"
    entry = "error-journalunavailable"


class JournalMoved(JournalUnavailable):
    """The journal's URL leads to another database than when this began; this was rolled back."""

    entry = "error-journalmoved"
    fact = (
        "[journal] url leads to another server or file since this began, and nothing more was "
        "written to the former one"
    )

    def __init__(self) -> None:
        super().__init__("its name leads to another server or file")

    def __str__(self) -> str:
        return f"{self.fact}: look how it stands, then repeat it"


class NotBegun(JournalUnavailable):
    """There was no connection for a transaction: certainly nothing was begun."""


class OpenRequestsUnknown(JournalUnavailable):
    """The database has crashed, and no sweep has found the open requests again; see
    `consumer.journal.open_requests`."""

    def __init__(self) -> None:
        super().__init__("it has restarted, and a worker is still looking for its open requests")


class JournalVersionError(WrongVersion, SettingsError):
    """The journal's tables are missing, or of another version than this program's."""

    database = "the journal"
    entry = "error-journalversionerror"
    without_tables = "the journal has no tables yet"
    migrate = "onceward-worker migrate"


class DataRefused(ValuesRefused):
    """The database refuses the values of a statement; its transaction was rolled back."""

    refusal = "the database refused the data"


class Contended(JournalUnavailable):
    """Two transactions were in each other's way and this one was rolled back; it may be repeated.

    Args:
        reason: the database's word for it.
    """


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
