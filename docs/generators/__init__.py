"""Writes the tables of the reference from the code, so that neither forgets the other.

A page says where a table stands by a line of its own, `<!-- generated: settings -->`. The modules
here are pure: each returns Markdown, and tests read it without Sphinx. `setup` lets Sphinx put it
into the page before it parses it; `references` knows the types that no page describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from docs.generators import (
    commands,
    exit_codes,
    headers,
    log_events,
    metrics,
    problems,
    python_api,
    rights,
    settings,
    statuses,
    tables,
)
from docs.generators.references import plain_type

if TYPE_CHECKING:
    from sphinx.application import Sphinx

GENERATED: Mapping[str, Callable[[], str]] = {
    "commands": commands.markdown,
    "codes": statuses.codes,
    "exit-codes": exit_codes.markdown,
    "followers": statuses.followers,
    "headers": headers.markdown,
    "log-events": log_events.markdown,
    "metrics": metrics.markdown,
    "problems": problems.markdown,
    "python-api": python_api.markdown,
    "rights": rights.markdown,
    "settings": settings.markdown,
    "states": statuses.states,
    "status-fields": statuses.hash_fields,
    "tables": tables.markdown,
}
_MARK = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)


def filled(page: str) -> str:
    """Return a page with its generated tables in it.

    Raises:
        KeyError: nothing generates a table of that name.
    """
    return _MARK.sub(lambda mark: GENERATED[mark[1]](), page)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.connect("source-read", _on_read)
    app.connect("missing-reference", plain_type)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _on_read(app: Sphinx, page: str, source: list[str]) -> None:
    source[0] = filled(source[0])
