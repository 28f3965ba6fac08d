"""Whether the journal is there, may be read, and is of the version that this audit reads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy.exc import DBAPIError

from feedback.errors import NotAvailable
from feedback.sql.faults import one_line, sort
from feedback.sql.reading import open_reader
from spark_audit.stage.jdbc import Database

VERSION = "6"
TIMEOUT_S = 10.0
_QUERY = "SELECT name, value FROM onceward_meta WHERE name IN ('schema_version', 'journal_id')"
_TABLES = ("onceward_request", "onceward_run", "onceward_worker", "onceward_forgotten")


def require_version(url: str) -> str:
    """Return the journal's id when it has the tables that are read here, and this user may read
    them; empty where it has none.

    Asked without Spark, which takes seconds to start.

    Args:
        url: `[journal] url`.

    Raises:
        SettingsError: the URL has parts that JDBC has no word for.
        NotAvailable: the journal is away, may not be read, or is of another version.
    """
    database = Database.of(url)
    engine = open_reader(url, timeout_s=TIMEOUT_S)
    try:
        with _explained(database), engine.connect() as connection:
            found = {one.name: one.value for one in connection.exec_driver_sql(_QUERY)}
            version = found.get("schema_version")
            if version == VERSION:
                for table in _TABLES:
                    connection.exec_driver_sql(f"SELECT 1 FROM {table} WHERE 1 = 0")
    finally:
        engine.dispose()
    if version == VERSION:
        return str(found.get("journal_id", ""))
    if version is None:
        raise NotAvailable(
            f"the journal {database.url} has no version yet: run `onceward-worker migrate`"
        )
    raise NotAvailable(
        f"the journal {database.url} is of version {version}, and this audit reads {VERSION}: "
        "run `onceward-worker migrate`, or the audit of that version"
    )


@contextmanager
def _explained(database: Database) -> Iterator[None]:
    try:
        yield
    except DBAPIError as error:
        text = one_line(error.orig)
        if 'relation "onceward_' in text or "no such table: onceward_" in text:
            raise NotAvailable(
                f"the journal {database.url} has no tables yet: run `onceward-worker migrate`"
            ) from error
        fault = sort(error, "journal")
        why = None if fault is None else fault.security
        said = text if why is None else why.said
        raise NotAvailable(f"the journal {database.url} cannot be read: {said}").because(
            why
        ) from error
