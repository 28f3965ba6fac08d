"""The tree that a wheel is made of: every room below `onceward`, and imports that say so.

A statement `from feedback.errors import …` becomes `from onceward.feedback.errors import …` in its
line, so tracebacks name the lines of the checkout. Nothing else in a file changes.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from onceward.checkout.rooms import FACE, ROOMS

# Beside the rooms: the settings of the build, and the texts that its metadata shows.
SETUP = "setup.cfg"
SHOWN = ("README.md", "LICENSE")
NOT_INSTALLED = "checkout"
# What `onceward help` prints.
HELP = Path("docs/how-to/troubleshooting.md")
# Of the environment, no package: `[options.data_files]` says where its files go.
DATA = "config"

_ROOM = "|".join(ROOMS)
_STATEMENT = re.compile(rf"(?:from|import)\s+(?=(?:{_ROOM})\b)")
_IN_SETUP = re.compile(rf"(?<![\w.])(?=(?:{_ROOM})[.*])")


class NotMovable(Exception):
    """A file cannot be moved below `onceward`; the sentence says how to write it."""


def write_tree(root: Path, target: Path) -> None:
    """Write the tree of a wheel.

    Args:
        root: the checkout.
        target: an empty folder.

    Raises:
        NotMovable: a file imports a room in a way that would mean something else below.
    """
    for source, place in _files(root):
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".py":
            text = source.read_text(encoding="utf-8")
            (target / place).write_text(moved(text, str(place)), encoding="utf-8")
        else:
            shutil.copyfile(source, target / place)
    setup = (root / SETUP).read_text(encoding="utf-8")
    (target / SETUP).write_text(_IN_SETUP.sub(f"{FACE}.", setup), encoding="utf-8")
    for name in SHOWN:
        shutil.copyfile(root / name, target / name)


def moved(text: str, name: str) -> str:
    """Return the text of a module with its imports of rooms below `onceward`.

    >>> moved("from feedback.errors import NotSent", "a.py")
    'from onceward.feedback.errors import NotSent'

    Raises:
        NotMovable: it says `import room.x` and then uses `room`.
    """
    tree = ast.parse(text, name)
    lines = text.split("\n")
    bound = set()
    # From the end, so that columns stay true. They count bytes, and before a statement in its line
    # stands nothing but spaces or another statement.
    for node in sorted(_imports(tree), key=lambda one: (-one.lineno, -one.col_offset)):
        line = lines[node.lineno - 1]
        begin = len(line.encode()[: node.col_offset].decode())
        found = _STATEMENT.match(line, begin)
        if found is None or (isinstance(node, ast.Import) and len(node.names) > 1):
            raise NotMovable(f"{name}:{node.lineno}: import one room in one line")
        lines[node.lineno - 1] = f"{line[: found.end()]}{FACE}.{line[found.end() :]}"
        if isinstance(node, ast.Import) and node.names[0].asname is None:
            bound.add(_room_of(node.names[0].name))
    for one in ast.walk(tree):
        if isinstance(one, ast.Name) and one.id in bound:
            raise NotMovable(f"{name}:{one.lineno}: write `from {one.id}… import`, not `import`")
    return "\n".join(lines)


def _imports(tree: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level == 0 and _room_of(node.module or "") in ROOMS:
                yield node
        elif isinstance(node, ast.Import) and any(
            _room_of(one.name) in ROOMS for one in node.names
        ):
            yield node


def _room_of(module: str) -> str:
    return module.partition(".")[0]


def _files(root: Path) -> Iterator[tuple[Path, Path]]:
    """Yield each file of the packages and of the data, and its place in the tree."""
    for package in (FACE, *ROOMS):
        above = Path() if package == FACE else Path(FACE)
        for file in sorted((root / package).rglob("*")):
            inner = file.relative_to(root)
            is_ours = "__pycache__" not in inner.parts and inner.parts[:2] != (FACE, NOT_INSTALLED)
            if is_ours and file.is_file():
                yield file, above / inner
    yield root / HELP, Path(FACE) / HELP.name
    for file in sorted((root / DATA).rglob("*")):
        if file.is_file():
            yield file, file.relative_to(root)
