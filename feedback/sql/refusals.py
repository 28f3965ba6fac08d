"""The faults of security in what PostgreSQL and its library say. Pure."""

from __future__ import annotations

import re
from typing import NamedTuple

from feedback.errors import SecurityFault, SecurityKind
from feedback.security import SettingNames, fault, of_tls_words

# libpq gives text, and no code, for a connection that was not made. The first that is found counts.
_REFUSALS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (r"does not match host name", SecurityKind.HOST_NAME),
        (r"server does not support SSL", SecurityKind.NO_TLS),
        (r"no encryption|SSL off", SecurityKind.NEEDS_TLS),
        (
            r"password authentication failed|no password (?:supplied|assigned)"
            r"|role \"[^\"]*\" (?:does not exist|is not permitted)",
            SecurityKind.PASSWORD,
        ),
        (
            r"valid client certificate|certificate authentication failed",
            SecurityKind.CLIENT_CERTIFICATE,
        ),
        (
            r"(?:root certificate|certificate revocation list|certificate|private key) file"
            r"|could not load private key",
            SecurityKind.FILE,
        ),
        (r"authentication method|channel binding", SecurityKind.MECHANISM),
        (r"pg_hba\.conf|permission denied for database", SecurityKind.RIGHT),
        (r"certificate verify failed", SecurityKind.UNTRUSTED),
    )
)
_HBA = "let it connect from this host in pg_hba.conf, and GRANT CONNECT on the database"
_DENIED = re.compile(r"permission denied for ([a-z ]+?) (\S+)$")
_LONGEST = 200
# PostgreSQL's code for a table that is not there, or in a schema that the user may not use.
NO_TABLE = "42P01"
# Its code for CREATE where the search path leads to no schema.
NO_SCHEMA = "3F000"


class Denied(NamedTuple):
    """An object of the database, and the rights to it that a statement needs.

    Args:
        kind: as in GRANT, empty for a table.
    """

    kind: str
    name: str
    rights: tuple[str, ...]


def of_connecting(text: str, names: SettingNames) -> SecurityFault | None:
    """Return the fault for which a connection was not made; None for an outage.

    Args:
        text: of the library's error. It names host, port, user and database.
    """
    line = next((one for one in text.strip().splitlines() if one), "")
    detail = line.rpartition(" failed: ")[2].removeprefix("FATAL:").strip()[:_LONGEST]
    kind = next((kind for sign, kind in _REFUSALS if sign.search(text)), None)
    kind = kind or of_tls_words(text)
    if kind is None:
        return None
    return fault(kind, names, detail, more=_HBA if kind is SecurityKind.RIGHT else "")


def of_statement(text: str, statement: str, names: SettingNames) -> SecurityFault:
    """Return the fault of a statement that the user may not run (SQLSTATE 42501).

    Args:
        text: of the server: kind and name of an object, and no value.
        statement: without values; it says which rights are needed.
    """
    denied = denied_by(text, statement)
    if denied is None:
        return fault(SecurityKind.RIGHT, names, "SQLSTATE 42501", more="grant it what it needs")
    on = f"{denied.kind} {denied.name}".strip()
    more = f"GRANT {', '.join(denied.rights)} ON {on} to it"
    return fault(SecurityKind.RIGHT, names, f"permission denied for {on}", more=more)


def of_schema(schema: str, names: SettingNames) -> SecurityFault:
    """Return the fault of tables in a schema that the user may not use."""
    more = f"GRANT USAGE ON SCHEMA {schema} to it"
    return fault(SecurityKind.RIGHT, names, f"permission denied for schema {schema}", more=more)


def of_no_schema(search_path: str, names: SettingNames) -> SecurityFault:
    """Return the fault of a search path whose schemas are not there, or not for this user."""
    said = (
        f"no schema of search_path = {search_path} is there for this user: CREATE SCHEMA it and "
        f"GRANT USAGE on it, or name another one in {names.address}"
    )
    return SecurityFault(SecurityKind.RIGHT, names.server, said)


def denied_by(text: str, statement: str) -> Denied | None:
    """Return the object that a user may not use; None where the server does not say.

    >>> denied_by("permission denied for table onceward_run", "INSERT INTO onceward_run (id)")
    Denied(kind='', name='onceward_run', rights=('INSERT',))
    >>> denied_by("permission denied for sequence onceward_run_id_seq", "INSERT INTO onceward_run")
    Denied(kind='SEQUENCE', name='onceward_run_id_seq', rights=('USAGE',))
    """
    found = _DENIED.search(text.strip().partition("\n")[0])
    if found is None:
        return None
    kind, name = found[1].upper(), found[2].strip('"')
    if kind in ("TABLE", "RELATION", "VIEW"):
        return Denied("", name, _rights(name, statement))
    rights = {"SEQUENCE": "USAGE", "SCHEMA": "USAGE", "FUNCTION": "EXECUTE"}
    return Denied(kind, name, (rights.get(kind, "ALL"),))


def _rights(table: str, statement: str) -> tuple[str, ...]:
    """Return the rights to a table that a statement needs, by its words; all if it has none."""
    words = " ".join(statement.split())
    name = rf'"?{re.escape(table)}"?\b'
    signs = {
        "SELECT": rf"\b(?:FROM|JOIN)\s+(?:ONLY\s+)?{name}|{name}\.\w|\bRETURNING\b",
        "INSERT": rf"\bINTO\s+{name}",
        "UPDATE": rf"\bUPDATE\s+(?:ONLY\s+)?{name}|\bDO UPDATE\b|\bFOR UPDATE\b",
        "DELETE": rf"\bDELETE\s+FROM\s+{name}",
    }
    found = [right for right, sign in signs.items() if re.search(sign, words, re.IGNORECASE)]
    return tuple(found) or tuple(signs)
