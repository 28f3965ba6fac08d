"""One name for one thing: no name of a class stands for two in the product, nor one of a type."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")


def test_no_class_name_stands_for_two_things() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for product in PRODUCT:
        for path in (ROOT / product).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(str(path.relative_to(ROOT)))
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_name_that_is_given_to_a_type_stands_for_two_things() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for product in PRODUCT:
        for path in (ROOT / product).rglob("*.py"):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                match node:
                    case ast.Assign(
                        targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp()
                    ):
                        # A constant is in capitals; a private name is of its file alone.
                        if name[0].isupper() and not name.isupper():
                            places[name].append(str(path.relative_to(ROOT)))
    assert len(places) > 50
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
