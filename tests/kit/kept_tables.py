"""The tables of a database of PostgreSQL, kept from one test to the next.

To drop them and to make them again takes PostgreSQL five times as long as to empty them. So they
lie in a schema of their own while a test wants an empty database, and when a test wants them that
schema takes the place of `public`. If a test changed more than rows, its tables are dropped.
"""

from __future__ import annotations

from typing import Any

from psycopg import Connection, sql

SCHEMA = "kept_by_tests"
# More than this is rather dropped than emptied.
SMALL_BYTES = 2 << 20
# Each row of a catalog names the transaction that wrote it. So the digest changes with each table
# and index, and with each right, default and trigger of them; with the statistics of their rows
# too, since these decide plans.
_STATE = """
    WITH relations AS (
        SELECT oid, relkind, xmin::text || ' ' || reltuples AS mark FROM pg_class
        WHERE relnamespace = 'public'::regnamespace
    ), marks AS (
        SELECT oid, mark FROM relations
        UNION ALL SELECT attrelid, xmin::text || ' ' || attname FROM pg_attribute
            WHERE attrelid IN (SELECT oid FROM relations WHERE relkind = 'r')
        UNION ALL SELECT oid, xmin::text FROM pg_constraint
            WHERE connamespace = 'public'::regnamespace
        UNION ALL SELECT oid, xmin::text FROM pg_trigger
            WHERE tgrelid IN (SELECT oid FROM relations)
        UNION ALL SELECT oid, xmin::text FROM pg_policy
            WHERE polrelid IN (SELECT oid FROM relations)
        UNION ALL SELECT oid, xmin::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace
        UNION ALL SELECT oid, nspname || nspowner || coalesce(nspacl::text, '') FROM pg_namespace
            WHERE nspname !~ '^(pg_|information_schema$)'
    )
    SELECT md5(string_agg(oid || mark, ',' ORDER BY oid, mark)), (
        SELECT sum(pg_total_relation_size(oid)) <= %s FROM relations WHERE relkind = 'r'
    ) FROM marks
"""
_TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
_SEQUENCES_BEGIN_ANEW = """
    SELECT setval(oid::regclass, 1, false) FROM pg_class
    WHERE relkind = 'S' AND relnamespace = 'public'::regnamespace
"""
# Nothing lies in `public`, and its rights are those that it had when the tables were put away.
_IS_PUBLIC_NEW = """
    SELECT 1 FROM pg_namespace AS public JOIN pg_namespace AS kept
        ON kept.nspowner = public.nspowner AND kept.nspacl::text = public.nspacl::text
    WHERE public.nspname = 'public' AND kept.nspname = %s AND NOT EXISTS (
        SELECT 1 FROM pg_depend
        WHERE refclassid = 'pg_namespace'::regclass AND refobjid = public.oid
    )
"""


class KeptTables:
    """What one database keeps: the tables that one `migrate` makes, or nothing."""

    def __init__(self) -> None:
        self._owner: object = None
        self._are_aside = False
        self._state: object = None
        self._rows: dict[str, list[tuple[Any, ...]]] = {}

    def note(self, session: Connection, owner: object) -> None:
        """Remember the tables in `public` as they are now, with their rows.

        Args:
            session: in a transaction of its own or in none.
            owner: the `migrate` that made them a moment ago.
        """
        session.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(SCHEMA)))
        names = [name for (name,) in session.execute(_TABLES)]
        every = sql.SQL("SELECT * FROM {}")
        self._rows = {
            name: session.execute(every.format(sql.Identifier(name))).fetchall() for name in names
        }
        self._state, _ = _state(session)
        self._owner, self._are_aside = owner, False

    def are_put_away(self, session: Connection) -> bool:
        """Empty the tables in `public` and rename it, if they are as they were noted.

        Then there is no `public` any more. Tables that were not taken out lie where they lay.

        Args:
            session: the only one on this database, and in a transaction.
        """
        if self._are_aside:
            return True
        state, is_small = _state(session)
        if self._owner is None or not is_small or state != self._state:
            self._owner = None
            return False
        for name, rows in self._rows.items():
            table = sql.Identifier(name)
            session.execute(sql.SQL("DELETE FROM {}").format(table))
            for row in rows:
                values = sql.SQL(", ").join(sql.Placeholder() * len(row))
                session.execute(sql.SQL("INSERT INTO {} VALUES ({})").format(table, values), row)
        session.execute(_SEQUENCES_BEGIN_ANEW)
        rename = sql.SQL("ALTER SCHEMA public RENAME TO {}")
        session.execute(rename.format(sql.Identifier(SCHEMA)))
        self._are_aside = True
        return True

    def are_taken_out(self, session: Connection, owner: object) -> bool:
        """Let them be in `public` again, if it is empty and they are those of `owner`."""
        if owner is not self._owner or not session.execute(_IS_PUBLIC_NEW, [SCHEMA]).fetchone():
            return False
        session.execute("DROP SCHEMA public")
        rename = sql.SQL("ALTER SCHEMA {} RENAME TO public")
        session.execute(rename.format(sql.Identifier(SCHEMA)))
        self._are_aside = False
        return True


def _state(session: Connection) -> tuple[object, bool]:
    """Return a digest of all but the rows, and whether there are so few of these."""
    found = session.execute(_STATE, [SMALL_BYTES]).fetchone()
    assert found is not None
    return found[0], bool(found[1])
