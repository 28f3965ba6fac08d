"""The errors of the journal; each says how to go on."""

from __future__ import annotations

from feedback.errors import NotAvailable, OncewardError, SettingsError


class JournalUnavailable(NotAvailable):
    """The journal's database is away, or was lost before it confirmed the commit.

    Whether the last batch was committed is unknown: the caller repeats the same batch, which is
    harmless.

    Args:
        reason: one line that names the fault, without any data of a request.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the journal is not available ({self.reason}): repeat the same call later"


class NotBegun(JournalUnavailable):
    """There was no connection for a transaction: certainly nothing was begun."""


class JournalVersionError(SettingsError):
    """The journal's tables are missing, or of another version than this program's.

    Args:
        found: the version in the database; None when there are no tables.
        wanted: the version this program works with.
    """

    def __init__(self, found: int | None, wanted: int) -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        if self.found is None:
            return "the journal has no tables yet: run `onceward-worker migrate`"
        if self.found < self.wanted:
            return (
                f"the journal has version {self.found}, this program needs {self.wanted}: "
                "run `onceward-worker migrate`"
            )
        return (
            f"the journal has version {self.found}, newer than this program's {self.wanted}: "
            "install the newer Onceward"
        )


class DataRefused(OncewardError):
    """The database refuses the values of a statement; its transaction was rolled back.

    Args:
        reason: kind and code of the refusal, never the data.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"the database refused the data ({self.reason}): nothing of it was written"


class Contended(JournalUnavailable):
    """Two transactions were in each other's way and this one was rolled back; it may be repeated.

    Args:
        reason: the database's word for it.
    """
