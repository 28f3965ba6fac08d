"""The errors of the outbox; each says the next step."""

from __future__ import annotations

from feedback.errors import ExitCode, NotAvailable, OncewardError


class OutboxUnavailable(NotAvailable):
    """The outbox' database is away, full, read-only or busy.

    Within the caller's transaction nothing was written. If a commit of our own was not confirmed,
    nobody knows whether the row is there.

    Args:
        reason: one line that names the fault, without any data of a request.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the outbox is not available ({self.reason}): repeat the same call later"


class OutboxForbidden(OutboxUnavailable):
    """The database's user may not do this; once it may, the same call works."""

    def __str__(self) -> str:
        return (
            f"the database user may not use the outbox ({self.reason}): grant it SELECT and INSERT "
            "on onceward_outbox, USAGE on its sequence onceward_outbox_id_seq and SELECT on "
            "onceward_outbox_meta; to that of a relay SELECT, INSERT, UPDATE and DELETE on "
            "onceward_outbox, onceward_outbox_lane and onceward_outbox_meta"
        )


class OutboxVersionError(NotAvailable):
    """The outbox' tables are missing, or of another version than this program's.

    Args:
        found: the version in the database; None when there are no tables.
        wanted: the version that this program works with.
    """

    def __init__(self, found: int | None, wanted: int) -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        if self.found is None:
            return "this database has no outbox: run `onceward-client outbox migrate`"
        if self.found < self.wanted:
            return (
                f"the outbox has version {self.found}, this program needs {self.wanted}: "
                "run `onceward-client outbox migrate`"
            )
        return (
            f"the outbox has version {self.found}, newer than this program's {self.wanted}: "
            "install the newer Onceward"
        )


class RowRefused(OncewardError):
    """The database refuses the row's values; nothing of it was written.

    Args:
        reason: kind and code of the refusal, never the data.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the outbox' database refused the row ({self.reason}): nothing of it was written"


class NoTransaction(OncewardError):
    """The connection has no transaction to join (or a failed one), or an unknown database."""

    exit_code = ExitCode.USAGE
