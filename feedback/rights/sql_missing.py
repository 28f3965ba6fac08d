"""The rights that a PostgreSQL does not give to the user of the settings."""

from __future__ import annotations

from contextlib import closing
from functools import partial

from sqlalchemy import make_url
from sqlalchemy.exc import DBAPIError

from feedback.rights.lines import sql_line
from feedback.rights.login_names import database_urls
from feedback.rights.needed import MissingRight, Role, SqlRight
from feedback.rights.sql_rights import sql_rights
from feedback.settings.settings import Settings
from feedback.sql.errors import DatabaseUnavailable
from feedback.sql.faults import sort
from feedback.sql.rights import Privilege, missing_privileges
from feedback.sql.session import Session

TIMEOUT_S = 5.0
# PostgreSQL's words to a user without CONNECT; no SQLSTATE comes with them.
_NO_CONNECT = "permission denied for database"


class RightsUnknown(DatabaseUnavailable):
    """The database did not say which rights there are."""

    database = "the database"


def missing_of_sql(role: Role, settings: Settings, section: str) -> list[MissingRight]:
    """Return the rights that a database does not give to the user of a role.

    Of tables that are not there nothing is said.

    Args:
        section: of the settings whose `url` names it.

    Raises:
        RightsUnknown: the database did not answer.
    """
    rights = sql_rights(role).get(section, ())
    url = database_urls(settings)[section]
    if not rights or not url or url.startswith("sqlite"):
        return []
    wanted = [Privilege(one.kind, one.name, what) for one in rights for what in one.privileges]
    marks = next((one.name for one in rights if one.kind == "TABLE"), "onceward_meta")
    session = Session(
        url, timeout_s=TIMEOUT_S, translate=partial(_translate, section), section=section
    )
    try:
        with closing(session), session.transaction(read_only=True) as connection:
            schema, missing = missing_privileges(connection, wanted, marks=marks)
    except RightsUnknown as error:
        if _NO_CONNECT not in error.reason:
            raise
        schema, missing = "public", [Privilege("DATABASE", "", "CONNECT")]
    return [_sentence(one, url, schema) for one in missing]


def _sentence(one: Privilege, url: str, schema: str) -> MissingRight:
    parsed = make_url(url)
    user, database = parsed.username or "postgres", parsed.database or parsed.username or ""
    place = {"DATABASE": database, "SCHEMA": schema}.get(one.kind, one.name)
    right = SqlRight(one.kind, one.name, (one.privilege,))
    return MissingRight(
        f"PostgreSQL: user {user} has no right {one.privilege} on {one.kind.lower()} {place}",
        sql_line(right, user=user, database=database, schema=schema),
    )


def _translate(section: str, error: DBAPIError) -> RightsUnknown | None:
    fault = sort(error, section)
    return None if fault is None else RightsUnknown(fault.reason).because(fault.security)
