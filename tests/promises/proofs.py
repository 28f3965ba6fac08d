"""What there is that can turn red: tests, rows of chaos, properties of the simulation."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

from tests.chaos.rows import ROWS
from tests.promises.ledger import Kind, Proof

ROOT = Path(__file__).parents[2]
SIMULATION = ROOT / "tests" / "simulation"


def exists(proof: Proof) -> bool:
    """Whether there is such a test, row or property; of what is open there is nothing to see."""
    match proof.kind:
        case Kind.TEST:
            path, _, name = proof.name.partition("::")
            return name in _tests(ROOT / path)
        case Kind.PROPERTY:
            return proof.name in _properties()
        case Kind.CHAOS:
            return proof.name in ROWS
        case Kind.OPEN:
            return True


@cache
def _tests(path: Path) -> frozenset[str]:
    """Return the names of the tests that pytest finds in a file."""
    if not path.name.startswith("test_") or not path.is_file():
        return frozenset()
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = ast.parse(path.read_text("utf-8")).body
    names = (node.name for node in nodes if isinstance(node, functions))
    return frozenset(name for name in names if name.startswith("test_"))


@cache
def _properties() -> frozenset[str]:
    """Return the promises that a simulated schedule can be found to break."""
    found = set()
    for path in SIMULATION.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Name(id="Violation"), args=[ast.Constant(value=name), _]):
                    found.add(str(name))
    return frozenset(found)
