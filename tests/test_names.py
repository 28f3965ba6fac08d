"""One name for one thing: no class name of the product stands for two."""

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
