"""The errors that all databases of ours have; each says how to go on. Loads no SQLAlchemy."""

from __future__ import annotations

from typing import ClassVar

from feedback.errors import NotAvailable, OncewardError


class DatabaseUnavailable(NotAvailable):
    """A database is away, or was lost before it confirmed a commit.

    Args:
        reason: one line that names the fault, without any data of a request.

    Attributes:
        database: its name in a sentence.
    """

    database: ClassVar[str]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        if self.fault is not None:
            return f"{self.database}: {self.fault.said}"
        return f"{self.database} is not available ({self.reason}): repeat the same call later"


class WrongVersion(OncewardError):
    """The tables of a database are missing, or of another version than this program's.

    Args:
        found: the version in the database; None when there are no tables.
        wanted: the version that this program works with.

    Attributes:
        database: its name in a sentence.
        without_tables: the sentence about a database that has none.
        migrate: the command that makes the tables, or brings them up to date.
    """

    database: ClassVar[str]
    without_tables: ClassVar[str]
    migrate: ClassVar[str]

    def __init__(self, found: int | None, wanted: int) -> None:
        super().__init__(found, wanted)
        self.found = found
        self.wanted = wanted

    def __str__(self) -> str:
        if self.found is None:
            return f"{self.without_tables}: run `{self.migrate}`"
        if self.found < self.wanted:
            return (
                f"{self.database} has version {self.found}, this program needs {self.wanted}: "
                f"run `{self.migrate}`"
            )
        return (
            f"{self.database} has version {self.found}, newer than this program's {self.wanted}: "
            "install the newer Onceward"
        )


class ValuesRefused(OncewardError):
    """A database refuses the values of a statement; nothing of them was written.

    Args:
        reason: kind and code of the refusal, never the data.

    Attributes:
        refusal: the sentence before the reason.
    """

    entry = "error-rowrefused"
    refusal: ClassVar[str]

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.refusal} ({self.reason}): nothing of it was written"
