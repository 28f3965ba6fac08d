"""Which privileges a PostgreSQL gives this user."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from sqlalchemy import Connection, Engine, Text, bindparam, text
from sqlalchemy.exc import DBAPIError

from feedback.security import of_database
from feedback.sql.refusals import NO_SCHEMA, NO_TABLE, of_no_schema, of_schema

# A table in the search path counts before one of another schema: a user without USAGE on its schema
# does not have it there.
_ASK = text(
    """
    SELECT w.kind, w.name, w.privilege, coalesce(place.schema, 'public'), CASE w.kind
        WHEN 'DATABASE' THEN has_database_privilege(current_database(), w.privilege)
        WHEN 'SCHEMA' THEN has_schema_privilege(place.id, w.privilege)
        WHEN 'TABLE' THEN has_table_privilege(found.id, w.privilege)
        WHEN 'SEQUENCE' THEN has_sequence_privilege(found.id, w.privilege) END
    FROM unnest(
        CAST(:kinds AS text[]), CAST(:names AS text[]), CAST(:privileges AS text[])
    ) AS w(kind, name, privilege)
    CROSS JOIN (
        SELECT coalesce(
            (SELECT relnamespace FROM pg_class WHERE relname = :marks AND relkind IN ('r', 'p')
                ORDER BY pg_table_is_visible(oid) DESC, relnamespace LIMIT 1),
            (SELECT oid FROM pg_namespace WHERE nspname = coalesce(current_schema(), 'public'))
        )
    ) AS home(id)
    LEFT JOIN LATERAL (
        SELECT oid, nspname FROM pg_namespace WHERE oid = home.id
    ) AS place(id, schema) ON true
    LEFT JOIN LATERAL (
        SELECT oid FROM pg_class WHERE relname = w.name AND relnamespace = place.id
    ) AS found(id) ON true
    """
)

# Where a schema of the search path has the table. The one that counts comes first.
HOLDING = text(
    """
    SELECT nspname, to_regclass(:name) IS NULL FROM pg_namespace
    WHERE nspname = ANY(
        string_to_array(
            replace(
                translate(current_setting('search_path'), ' "', ''), '$user', current_user
            ), ','
        )
    )
    AND EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = pg_namespace.oid AND relname = :name)
    ORDER BY has_schema_privilege(oid, 'USAGE') DESC
    LIMIT 1
    """
).bindparams(bindparam("name", type_=Text))
_NO_SCHEMA = text("SELECT current_setting('search_path') WHERE current_schema() IS NULL")
_OURS = re.compile(r"onceward_\w+")


class Privilege(NamedTuple):
    """One privilege in a database.

    Args:
        kind: DATABASE, SCHEMA, TABLE or SEQUENCE.
        name: of a table or sequence; else empty.
        privilege: as GRANT names it.
    """

    kind: str
    name: str
    privilege: str


def missing_privileges(
    connection: Connection, wanted: Sequence[Privilege], *, marks: str
) -> tuple[str, list[Privilege]]:
    """Return the schema of the tables, and those privileges that this user does not have.

    Of a table that is not there nothing is said.

    Args:
        connection: to PostgreSQL.
        marks: a table by which the schema is known.
    """
    columns = {
        "kinds": [one.kind for one in wanted],
        "names": [one.name for one in wanted],
        "privileges": [one.privilege for one in wanted],
    }
    rows = connection.execute(_ASK, {**columns, "marks": marks}).all()
    schema = rows[0][3] if rows else "public"
    return schema, [Privilege(*row[:3]) for row in rows if row[4] is False]


def note_hidden_schema(error: DBAPIError, engine: Engine, section: str) -> None:
    """Note on an error, as its cause, that our tables are there and this user may not see them.

    Without USAGE on their schema PostgreSQL says that there are none, as before a migration. The
    right may be back by now, so it is not asked for: the table is there, and was not seen. Where
    the search path leads to no schema at all, a migration would not help: that is noted.

    Args:
        section: the section of the settings with the database's URL.
    """
    named = _OURS.search(str(error.orig))
    state = getattr(error.orig, "sqlstate", None)
    if state != NO_SCHEMA and (named is None or state != NO_TABLE):
        return
    names = of_database(section)
    with suppress(DBAPIError), engine.connect() as connection:
        if named and (holding := connection.execute(HOLDING, {"name": named[0]}).first()):
            found = of_schema(holding[0], names)
        elif path := connection.execute(_NO_SCHEMA).scalar():
            found = of_no_schema(path, names)
        else:
            return
        error.orig.onceward_fault = found  # type: ignore[union-attr]
