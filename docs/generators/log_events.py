"""Every event of the log: its level and its fields from the source, its meaning from a sentence."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from docs.generators.markdown import code, slug, terms
from docs.generators.meanings import meanings
from docs.generators.source import texts, trees

# Calls that log: of each argument that names an event, by its place, the level of its lines.
CALLS = {
    "debug": {0: "debug"},
    "info": {0: "info"},
    "warning": {0: "warning"},
    "error": {0: "error"},
    "exception": {0: "error"},
    "raised": {0: "error"},
    # Of rooms that say a thing once.
    "_warn": {0: "warning"},
    "say": {0: "warning"},
    # Of outages: their beginning, and their end.
    "log_outage": {1: "warning"},
    "OutageLog": {1: "warning", 2: "info"},
}
# The fields that the callee adds.
ADDED = {("log_outage", 1): ("reason",), ("OutageLog", 1): ("reason",)}
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
    known = dict(texts(tree))
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=call) | ast.Name(id=call)) if call in CALLS:
                given = tuple(one.arg for one in node.keywords if one.arg is not None)
                for place, level in CALLS[call].items():
                    name = _name(node.args[place], known) if place < len(node.args) else ""
                    if _EVENT.match(name):
                        yield LogEvent(name, level, (*ADDED.get((call, place), ()), *given))


def _name(argument: ast.expr, known: Mapping[str, str]) -> str:
    match argument:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name, "")
        case ast.JoinedStr(values=parts):
            return "".join(
                str(one.value) if isinstance(one, ast.Constant) else "*" for one in parts
            )
    return ""
