"""States, the states that may follow each, codes, and the fields of a status."""

from __future__ import annotations

from dataclasses import fields

from docs.generators.markdown import anchor, code, slug, table
from docs.generators.meanings import meanings
from docs.generators.source import constants
from feedback.status import FINAL, FOLLOWERS, NEWER_GENERATION, STORED, State
from feedback.statuses import Status

# Texts of the same form that are no code of a request.
NO_CODES = frozenset({"OTHER", "RESOLVED", "WATCHDOG_USEC", "WATCHDOG_PID"})
_ROOMS = ("consumer", "feedback", "producer_client")
_HEADERS = ("ORIGINAL_", "DLQ_")


def states() -> str:
    """Return a table of the states."""
    meant = meanings("statuses", "states", State)
    rows = [[f"[]{{#status-{slug(one)}}}{code(one)}", _kind(one), meant[one]] for one in State]
    return table(("status", "kind", "meaning"), rows)


def followers() -> str:
    """Return a table of the states that may follow each."""
    rows = [
        [code(one), _names(FOLLOWERS[one] - {one}), _names(NEWER_GENERATION.get(one, frozenset()))]
        for one in STORED
    ]
    heads = ("after", "within one attempt and generation", "by a higher generation")
    return table(heads, rows)


def codes() -> str:
    """Return a table of the codes."""
    meant = meanings("statuses", "codes", all_codes())
    rows = [[f"[]{{#code-{slug(one)}}}{code(one)}", meant[one]] for one in sorted(all_codes())]
    return "\n\n".join([anchor("codes"), table(("code", "meaning"), rows)])


def all_codes() -> set[str]:
    """Return every code that a status or a row may have, but those of handlers."""
    found = {one.text for one in constants(*_ROOMS) if one.text == one.name}
    return {one for one in found if not one.startswith(_HEADERS)} - NO_CODES


def hash_fields() -> str:
    """Return a table of the fields of a status in Redis."""
    names = all_fields()
    meant = meanings("statuses", "fields", names)
    return table(("field", "meaning"), [[code(one), meant[one]] for one in names])


def all_fields() -> list[str]:
    """Return the names of the fields, as they are in the hash."""
    names = [one.name for one in fields(Status) if one.name != "request_id"]
    return ["status" if one == "state" else one for one in names]


def _kind(state: State) -> str:
    if state not in STORED:
        return "seen when read"
    return "final" if state in FINAL else "open"


def _names(found: frozenset[State]) -> str:
    return ", ".join(code(one) for one in State if one in found) or "none"
