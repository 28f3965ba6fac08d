"""One name for one thing: no name of a class stands for two in the product, nor one of a type."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRODUCT = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")


def test_no_class_name_stands_for_two_things() -> None:
    places = _places(_class_names)
    assert len(places) > 500
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_name_that_is_given_to_a_type_stands_for_two_things() -> None:
    places = _places(_type_names)
    assert len(places) > 50
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_no_class_shares_its_name_with_another_type() -> None:
    classes = _places(_class_names)
    others = _places(lambda tree: {*_type_names(tree), *_variable_names(tree), *_new_names(tree)})
    assert len(others) > 80
    assert {name: [*classes[name], *others[name]] for name in classes.keys() & others} == {}


def _places(names_of: Callable[[ast.Module], Iterable[str]]) -> dict[str, list[str]]:
    """Return the files of each name."""
    places: defaultdict[str, list[str]] = defaultdict(list)
    for product in PRODUCT:
        for path in (ROOT / product).rglob("*.py"):
            for name in names_of(ast.parse(path.read_text(encoding="utf-8"))):
                places[name].append(str(path.relative_to(ROOT)))
    return places


def _class_names(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name


def _type_names(tree: ast.Module) -> Iterator[str]:
    """Yield names of types that have no class; a private one is of its file alone."""
    for node in tree.body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id=name)], value=ast.Subscript() | ast.BinOp())
                | ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"))
            ):
                if _is_type_name(name):
                    yield name


def _variable_names(tree: ast.Module) -> Iterator[str]:
    """Yield type variables, which each file has of its own."""
    for node in tree.body:
        match node:
            case ast.Assign(
                targets=[ast.Name(id=name)], value=ast.Call(func=ast.Name(id="TypeVar"))
            ):
                yield name


def _new_names(tree: ast.Module) -> Iterator[str]:
    """Yield names under which a file imports a type that has another one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [one.asname for one in node.names if one.asname not in (None, one.name)]
            yield from (name for name in names if name is not None and _is_type_name(name))


def _is_type_name(name: str) -> bool:
    # A constant is in capitals.
    return name[0].isupper() and not name.isupper()
