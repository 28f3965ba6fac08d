"""Names that the source has as texts: codes, headers, events of the log. Read, not imported."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PRODUCT = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")


class Constant(NamedTuple):
    """A name of a module that holds a text."""

    place: str
    name: str
    text: str


@cache
def trees() -> Mapping[str, ast.Module]:
    """Return the syntax of each file of the product by its place; they are read once."""
    paths = [path for room in PRODUCT for path in sorted((ROOT / room).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text("utf-8")) for path in paths}


def constants(*rooms: str) -> Iterator[Constant]:
    """Yield the texts that modules of these rooms hold under a name of their own."""
    for place, tree in trees().items():
        if place.partition("/")[0] in rooms:
            yield from (Constant(place, *one) for one in texts(tree))


def texts(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield name and text of each text that a module holds under a name of its own."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str(text))):
                yield name, text
