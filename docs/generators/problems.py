"""Every problem of the front door: its type, its status and its title."""

from __future__ import annotations

from docs.generators.markdown import code, table
from producer_client.http.problems import KINDS, TYPE


def markdown() -> str:
    """Return a table of the problems."""
    rows = [[code(f"{TYPE}{one.name}"), str(one.status), one.title] for one in KINDS]
    return table(("type", "status", "title"), rows)
