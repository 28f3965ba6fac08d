"""Whether the journal is there, and of the version that this audit reads."""

from __future__ import annotations

from pyspark.sql import SparkSession

from feedback.errors import NotAvailable
from spark_audit.jdbc import Database

VERSION = "3"
_QUERY = "SELECT value FROM onceward_meta WHERE name = 'schema_version'"


def require_version(spark: SparkSession, url: str) -> None:
    """Return when the journal has the tables that are read here.

    Args:
        url: `[journal] url`.

    Raises:
        SettingsError: the URL has parts that JDBC has no word for.
        NotAvailable: the journal is away, may not be read, or is of another version.
    """
    database = Database.of(url)
    answer = database.read(spark, _QUERY, "value STRING")
    with database.explained():
        found = [row["value"] for row in answer.collect()]
    if found == [VERSION]:
        return
    if not found:
        raise NotAvailable(
            f"the journal {database.url} has no version yet: run `onceward-worker migrate`"
        )
    raise NotAvailable(
        f"the journal {database.url} is of version {found[0]}, and this audit reads {VERSION}: "
        "run `onceward-worker migrate`, or the audit of that version"
    )
