"""The declarations of a process as a short text that another process can compare with its own.

A worker's children import the handlers themselves, each when it starts. Where the files have
changed since the worker read them, a new child would run one declaration while its worker claims,
limits and judges by another: so a child reports its fingerprint, and a child with another one is
not used (`consumer.pool.child_process`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

from consumer.handlers.declaration import Handler
from feedback.errors import NotAvailable
from feedback.foreign import qualified_name
from feedback.records.schemas import SchemaFile


class HandlersChanged(NotAvailable):
    """The files of the handlers declare something else than this worker works by."""

    def __str__(self) -> str:
        return (
            "the handlers' files were changed while this worker ran: they declare something else "
            "than it works by. It has ended in order; start it again"
        )


def digest(handlers: Iterable[Handler]) -> str:
    """Return the same text for the same declarations, in every process.

    It covers all that is declared of each handler, by value; functions, models and exceptions by
    their names: code that changes under one declaration is no other declaration.
    """
    told = sorted(repr(_told(one)) for one in handlers)
    text = "\n".join(told).encode("utf-8", "surrogatepass")
    # Files change by accident, not to deceive: no need to load OpenSSL in each child.
    return f"{len(text):x}-{zlib.crc32(text):08x}"


def _told(value: Any) -> Any:
    """Return a value as plain ones whose `repr` has no address of an object in it."""
    match value:
        case Enum():
            return str(value)
        case None | bool() | int() | float() | str():
            return value
        case tuple() | list():
            return [_told(one) for one in value]
        case SchemaFile():
            return str(value.path)
        case type():
            return f"{value.__module__}.{value.__qualname__}"
    if is_dataclass(value):
        told = [(one.name, _told(getattr(value, one.name))) for one in fields(value)]
        return [qualified_name(value), told]
    name = getattr(value, "__qualname__", None)
    module = getattr(value, "__module__", None)
    return f"{module}.{name}" if isinstance(name, str) else qualified_name(value)
