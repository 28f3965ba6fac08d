"""The errors of the outbox; each says the next step."""

from __future__ import annotations

from feedback.errors import ExitCode, NotAvailable, OncewardError
from feedback.sql.errors import DatabaseUnavailable, ValuesRefused, WrongVersion


class OutboxUnavailable(DatabaseUnavailable):
    """The outbox' database is away, full, read-only or busy.

    Within the caller's transaction nothing was written. If a commit of our own was not confirmed,
    nobody knows whether the row is there.
    """

    database = "the outbox"
    entry = "error-outboxunavailable"


class OutboxForbidden(OutboxUnavailable):
    """The database's user may not do this; once it may, the same call works."""

    entry = "error-outboxforbidden"

    def __str__(self) -> str:
        return (
            f"the database user may not use the outbox ({self.reason}): grant it SELECT and INSERT "
            "on onceward_outbox, USAGE on its sequence onceward_outbox_id_seq and SELECT on "
            "onceward_outbox_meta; to that of a relay SELECT, INSERT, UPDATE and DELETE on "
            "onceward_outbox, onceward_outbox_lane and onceward_outbox_meta"
        )


class OutboxVersionError(WrongVersion, NotAvailable):
    """The outbox' tables are missing, or of another version than this program's."""

    database = "the outbox"
    entry = "error-outboxversionerror"
    without_tables = "this database has no outbox"
    migrate = "onceward-client outbox migrate"


class RowRefused(ValuesRefused):
    """The database refuses the row's values; nothing of it was written."""

    refusal = "the outbox' database refused the row"


class NoTransaction(OncewardError):
    """The connection has no transaction to join (or a failed one), or an unknown database."""

    exit_code = ExitCode.USAGE
    entry = "error-notransaction"


class NotCommitted(OncewardError):
    """A wait in the transaction that wrote the request: nobody sends it before the commit.

    Args:
        request_id: the request.
    """

    exit_code = ExitCode.USAGE
    entry = "error-notcommitted"

    def __init__(self, request_id: str) -> None:
        super().__init__(request_id)
        self.request_id = request_id

    def __str__(self) -> str:
        return (
            f"request {self.request_id} waits in an outbox row that is not committed, and no relay "
            "sends it before that: commit first, then wait"
        )
