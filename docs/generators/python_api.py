"""Every public name of Python, described by its docstring."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from types import ModuleType

from docs.generators.markdown import anchor, slug

MODULES = ("onceward", "onceward.testing")
GROUPS = {"class": "Classes", "exception": "Errors", "function": "Functions", "data": "Values"}
# Values have no docstring of their own.
VALUES = {
    "onceward.__version__": "The version of Onceward, as text.",
    "onceward.outbox.metadata": "The outbox's tables for SQLAlchemy's `create_all` and for "
    "Alembic: [](tables.md) has their columns.",
}
# A signature that a library has made says nothing to a reader.
SIGNATURES = {"onceward.Settings": "()"}


def markdown() -> str:
    """Return a heading for each module, and below it a directive for each of its names."""
    return "\n\n".join(_module(name) for name in MODULES)


def described() -> list[str]:
    """Return the full name of all that is public, each once."""
    return [name for module in MODULES for name, _ in _names(module)]


def _names(module: str) -> Iterator[tuple[str, object]]:
    """Yield names and things; of a public module those that stand nowhere else."""
    face = importlib.import_module(module)
    things = {name: getattr(face, name) for name in face.__all__}
    for name, thing in things.items():
        if not isinstance(thing, ModuleType):
            yield f"{module}.{name}", thing
            continue
        for inner in thing.__all__:
            if inner not in things:
                yield f"{module}.{name}.{inner}", getattr(thing, inner)


def _module(module: str) -> str:
    parts = [anchor(slug(f"module {module}")), f"## `{module}`"]
    for kind, title in GROUPS.items():
        names = [name for name, thing in _names(module) if _kind(thing) == kind]
        if names:
            parts += [f"### {title} of `{module}`", *(_directive(kind, name) for name in names)]
    return "\n\n".join(parts)


def _kind(thing: object) -> str:
    if inspect.isclass(thing):
        return "exception" if issubclass(thing, BaseException) else "class"
    return "function" if callable(thing) else "data"


def _directive(kind: str, name: str) -> str:
    if kind == "data":
        return f"```{{py:data}} {name}\n{VALUES[name]}\n```"
    options = "" if kind == "function" else "\n   :members:"
    return f"```{{eval-rst}}\n.. auto{kind}:: {name}{SIGNATURES.get(name, '')}{options}\n```"
