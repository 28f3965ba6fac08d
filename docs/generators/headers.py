"""Every header that a record of ours may have."""

from __future__ import annotations

from docs.generators.markdown import code, slug, table
from docs.generators.meanings import meanings_of
from docs.generators.source import constants

_BEGINNINGS = ("onceward-", "ORIGINAL_", "DLQ_")
_ROOMS = ("consumer", "feedback", "producer_client")


def markdown() -> str:
    """Return a heading and a table for each kind of record."""
    parts = []
    for kind, written in meanings_of("headers").items():
        rows = [
            [f"[]{{#header-{slug(f'{kind}-{name}')}}}{code(name)}", text]
            for name, text in written.items()
            if name != "about"
        ]
        parts += [f"## Headers of {kind}", written["about"], table(("header", "value"), rows)]
    return "\n\n".join(parts)


def all_headers() -> set[str]:
    """Return every header that the source names."""
    return {
        one.text
        for one in constants(*_ROOMS)
        if one.text.startswith(_BEGINNINGS) and one.text not in _BEGINNINGS
    }


def described() -> set[str]:
    """Return every header that has a sentence."""
    return {name for written in meanings_of("headers").values() for name in written} - {"about"}
