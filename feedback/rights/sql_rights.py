"""The tables that each role reads and writes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from feedback.rights.needed import Role, SqlRight

_LETTERS = {"S": "SELECT", "I": "INSERT", "U": "UPDATE", "D": "DELETE"}
# By role and section of the settings: S is SELECT, I INSERT, U UPDATE, D DELETE.
TABLES: Mapping[Role, Mapping[str, Mapping[str, str]]] = {
    Role.WORKER: {
        "journal": {
            "onceward_request": "SIU",
            "onceward_open_request": "S",
            # Written after a crash of the server, which empties it.
            "onceward_open_look": "SIUD",
            "onceward_run": "SI",
            "onceward_worker": "SIUD",
            "onceward_meta": "SIU",
            "onceward_pause": "SIU",
            # Read when a record may be one whose row was pruned.
            "onceward_forgotten": "S",
        }
    },
    Role.CLIENT: {"outbox": {"onceward_outbox": "SI", "onceward_outbox_meta": "S"}},
    Role.RELAY: {
        "outbox": {
            "onceward_outbox": "SUD",
            "onceward_outbox_lane": "SIU",
            "onceward_outbox_meta": "S",
        }
    },
    Role.REGISTRY: {
        "registry": {
            "onceward_wait": "SIUD",
            "onceward_wait_expiry": "SIUD",
            "onceward_wait_partition": "SIUD",
            "onceward_meta": "S",
        }
    },
    Role.OPERATOR: {
        "journal": {
            "onceward_request": "SIUD",
            "onceward_open_request": "S",
            "onceward_open_look": "S",
            "onceward_run": "SID",
            "onceward_worker": "SD",
            "onceward_meta": "SIU",
            "onceward_action": "SI",
            "onceward_pause": "SIU",
            "onceward_redrive": "SIU",
            "onceward_forgotten": "SIU",
        }
    },
    Role.AUDITOR: {
        "journal": {
            "onceward_request": "S",
            "onceward_run": "S",
            "onceward_worker": "S",
            "onceward_meta": "S",
            "onceward_forgotten": "S",
        }
    },
}
# Their numbers come from a sequence.
_NUMBERED = ("onceward_run", "onceward_action", "onceward_outbox")


def sql_rights(role: Role) -> dict[str, tuple[SqlRight, ...]]:
    """Return the rights of a role, by the section whose `url` names the database.

    >>> sql_rights(Role.MIGRATE)["journal"][1]
    SqlRight(kind='SCHEMA', name='', privileges=('CREATE', 'USAGE'))
    """
    if role is Role.MIGRATE:
        made = (_connecting(), SqlRight("SCHEMA", "", ("CREATE", "USAGE")))
        return dict.fromkeys(("journal", "registry", "outbox"), made)
    return {
        section: (_connecting(), SqlRight("SCHEMA", "", ("USAGE",)), *_of_tables(tables))
        for section, tables in TABLES.get(role, {}).items()
    }


def _connecting() -> SqlRight:
    return SqlRight("DATABASE", "", ("CONNECT",))


def _of_tables(tables: Mapping[str, str]) -> Iterator[SqlRight]:
    for table, letters in tables.items():
        yield SqlRight("TABLE", table, tuple(_LETTERS[one] for one in letters))
        if "I" in letters and table in _NUMBERED:
            yield SqlRight("SEQUENCE", f"{table}_id_seq", ("USAGE",))
