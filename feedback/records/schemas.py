"""Checks values against a pydantic model or a JSON Schema in a file; the same for both sides.

A fault names the path and the rule, never the value, which may be a card number. A name that the
schema does not know is data as well: it is shown as `*`.

A schema is read without the network: it may refer only to files in its own folder or below.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from feedback.foreign import class_name, name_of
from feedback.records.schema_faults import PLACE_LIMIT, SHOWN

FAULT_LIMIT = 1000

# C0 and C1 controls and lone surrogates: no database takes them, and a user's validator may put
# them into the name of a rule.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class SchemaFile:
    """A JSON Schema, of draft 2020-12 unless it names another; read at its first use.

    Args:
        path: a JSON file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._find: Callable[[Any], list[str]] | None = None

    def __repr__(self) -> str:
        return f"SchemaFile({str(self.path)!r})"

    def load(self) -> None:
        """Read and check the schema; a second call does nothing.

        Raises:
            SchemaError: it cannot be read, is no schema, or refers to a missing file.
        """
        if self._find is None:
            # Imported here: children import handlers with schemas, and never validate.
            from feedback.records.json_schemas import compiled

            self._find = compiled(self.path)

    def document(self) -> dict[str, Any]:
        """Return the schema with all that it refers to in its place, so that others can read it.

        Raises:
            SchemaError: see `load`.
        """
        from feedback.records.json_schemas import inlined

        self.load()
        return inlined(self.path)

    def fault(self, value: bytes | None) -> str | None:
        """Return the fault of a value, without the value; None for a valid one.

        Raises:
            SchemaError: the schema was not loaded before, and cannot be.
        """
        self.load()
        assert self._find is not None
        try:
            found = json.loads(value if value is not None else b"null", parse_constant=_refuse)
            faults = self._find(found)
        except (ValueError, RecursionError):
            return "value is not JSON"
        except BaseException as error:  # a panic of the library's: a record must not end the worker
            return f"value cannot be checked: {class_name(error)}"
        if not faults:
            return None
        return f"value does not match {self.path.name}: {', '.join(faults)}"


def value_fault(
    value: bytes | None, *, model: type | None = None, schema: SchemaFile | None = None
) -> str | None:
    """Return the fault of a value, without the value; None for a valid one.

    Args:
        value: the JSON text; None counts as `null`.
        model: the pydantic model to check it against.
        schema: the JSON Schema to check it against.
    """
    if model is not None and (fault := _model_fault(model, value)) is not None:
        return fault
    return None if schema is None else schema.fault(value)


def _model_fault(model: type, value: bytes | None) -> str | None:
    validate: Callable[[bytes], object] = getattr(model, "model_validate_json")  # noqa: B009
    try:
        validate(value if value is not None else b"null")
    # BaseException: a user's validator may raise anything, and a record must not end the worker.
    except BaseException as error:
        fault = f"value is not a {name_of(model)}: {_faults_of(error, model) or class_name(error)}"
        return _UNFIT.sub("?", fault)[:FAULT_LIMIT]
    return None


def _faults_of(error: BaseException, model: type) -> str:
    """Return the paths and rules of a pydantic error; an empty text for any other error."""
    try:
        # pydantic's own text quotes the input, which may be a card number.
        errors = getattr(error, "errors")  # noqa: B009
        faults = errors(include_url=False, include_context=False, include_input=False)[:SHOWN]
        names = _names_of(model)
        return ", ".join(f"{_path(one['loc'], names)}: {one['type']}" for one in faults)
    except BaseException:
        return ""


def _path(loc: Iterable[str | int], names: Collection[str]) -> str:
    shown = (str(one) if isinstance(one, int) or one in names else "*" for one in loc)
    return ".".join(shown)[:PLACE_LIMIT] or "value"


@lru_cache
def _names_of(model: type) -> frozenset[str]:
    """Return the names of all fields in a model; any other name in a path came with the value."""
    names: set[str] = set()

    def collect(part: object) -> None:
        if isinstance(part, dict):
            names.update(part.get("properties", ()))
            collect(list(part.values()))
        elif isinstance(part, list):
            for one in part:
                collect(one)

    make: Callable[[], object] | None = getattr(model, "model_json_schema", None)
    if make is not None:
        # A user's type may have no schema, or raise: then no name is known.
        with suppress(BaseException):
            collect(make())
    return frozenset(names)


def _refuse(constant: str) -> object:
    raise ValueError(constant)  # NaN and Infinity are Python's, not JSON's
