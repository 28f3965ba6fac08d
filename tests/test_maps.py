"""The docstring of a folder is its map: it names each file and each folder in it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")
# Files of migrations: their names are their order, and each says what it makes.
WITHOUT_MAP = ("consumer/journal/migrations/versions", "onceward/django/migrations")
NEVER_NAMED = ("__init__", "__main__")


def _folders() -> list[str]:
    found = (path.parent.relative_to(ROOT) for one in PRODUCT for path in _packages(ROOT / one))
    return sorted(str(one) for one in found if str(one) not in WITHOUT_MAP)


def _packages(room: Path) -> Iterator[Path]:
    return room.rglob("__init__.py")


def _inside(folder: Path) -> set[str]:
    files = {path.stem for path in folder.glob("*.py")}
    folders = {path.parent.name for path in folder.glob("*/__init__.py")}
    return (files | folders) - {*NEVER_NAMED}


def _named(folder: Path) -> set[str]:
    text = (folder / "__init__.py").read_text(encoding="utf-8")
    told = ast.get_docstring(ast.parse(text)) or ""
    # A diagram stands between three of them, and names files without any.
    diagrams, prose = told.split("```")[1::2], " ".join(told.split("```")[::2])
    return set(re.findall(r"\w+", " ".join([*diagrams, *re.findall(r"`([^`]*)`", prose)])))


@pytest.mark.parametrize("name", _folders())
def test_a_map_names_each_file_of_its_folder(name: str) -> None:
    folder = ROOT / name
    assert sorted(_inside(folder) - _named(folder)) == []


def test_a_folder_without_a_map_is_there() -> None:
    assert all((ROOT / one / "__init__.py").exists() for one in WITHOUT_MAP)
