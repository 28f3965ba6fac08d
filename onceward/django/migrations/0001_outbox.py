"""Makes the outbox's tables; where `onceward-client outbox migrate` made them, they stay."""

from __future__ import annotations

from typing import Any

from django.db import migrations
from django.db.utils import NotSupportedError

from producer_client.outbox.errors import OutboxVersionError
from producer_client.outbox.sql_texts import is_known, query_of_version, statements_of_schema
from producer_client.outbox.tables import SCHEMA_VERSION, meta


def make_tables(apps: object, schema_editor: Any) -> None:
    """Make the tables in the database that is migrated, within the migration's transaction.

    Raises:
        NotSupportedError: an outbox cannot lie in such a database.
        OutboxVersionError: there are tables of another version.
    """
    connection = schema_editor.connection
    if not is_known(connection.vendor):
        raise NotSupportedError(
            f"the outbox lies in PostgreSQL or SQLite, not in {connection.vendor}: keep the app "
            '"onceward" off this database by a router (allow_migrate)'
        )
    with connection.cursor() as cursor:
        if meta.name in connection.introspection.table_names(cursor):
            cursor.execute(query_of_version(connection.vendor))
            found = cursor.fetchone()
            version = None if found is None else int(found[0])
            if version != SCHEMA_VERSION:
                raise OutboxVersionError(version, SCHEMA_VERSION)
            return
    for statement in statements_of_schema(connection.vendor):
        schema_editor.execute(statement, params=None)


class Migration(migrations.Migration):  # type: ignore[misc]  # Django has no types
    """Has no way back: rows that wait are requests that somebody was promised."""

    operations = (migrations.RunPython(make_tables),)
