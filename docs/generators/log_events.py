"""Every event of the log: its level and its fields from the source, its meaning from a sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from docs.generators.markdown import code, slug, terms
from docs.generators.meanings import meanings
from docs.generators.source import trees

# A method of the log, and the level that its lines have.
LEVELS = {
    "debug": "debug",
    "info": "info",
    "warning": "warning",
    "error": "error",
    "exception": "error",
    "raised": "error",
    # Of rooms that say a thing once.
    "_warn": "warning",
    "say": "warning",
}
_EVENT = re.compile(r"[a-z_*]+(?:\.[a-z_*]+)+\Z")


class LogEvent(NamedTuple):
    """An event as the source writes it; a part of the name that is not fixed is a star."""

    name: str
    level: str
    fields: tuple[str, ...]


def markdown() -> str:
    """Return a list of the events."""
    found = all_events()
    meant = meanings("log_events", "events", found)
    return terms(_term(name, meant[name], events) for name, events in sorted(found.items()))


def _term(name: str, meaning: str, events: list[LogEvent]) -> tuple[str, str, str, str]:
    levels = " or ".join(sorted({one.level for one in events}))
    fields = dict.fromkeys(field for one in events for field in one.fields)
    said = f"; {', '.join(map(code, fields))}" if fields else ""
    return slug(f"event {name}"), name, meaning, f"{levels}{said}"


def all_events() -> dict[str, list[LogEvent]]:
    """Return the events of the product by name."""
    found: dict[str, list[LogEvent]] = {}
    for tree in trees().values():
        for one in _events(tree):
            found.setdefault(one.name, []).append(one)
    return found


def _events(tree: ast.Module) -> Iterator[LogEvent]:
    for node in ast.walk(tree):
        match node:
            case ast.Call(
                func=ast.Attribute(attr=method) | ast.Name(id=method), args=[first, *_]
            ) if method in LEVELS and _EVENT.match(_name(first)):
                fields = tuple(one.arg for one in node.keywords if one.arg is not None)
                yield LogEvent(_name(first), LEVELS[method], fields)


def _name(first: ast.expr) -> str:
    match first:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(
                str(one.value) if isinstance(one, ast.Constant) else "*" for one in parts
            )
    return ""
