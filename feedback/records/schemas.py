"""What a value must be: a pydantic model, or a JSON Schema in a file; the same for both sides.

A fault names the place and the rule, never the value, which may be a card number. A name in a value
that the schema does not know is data as well: it is shown as `*`.

A schema is read without the network: what it refers to lies in its own folder, or below it.
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

# C0 and C1 controls and lone surrogates, which no database takes: a validator names its own rules.
_UNFIT = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class SchemaFile:
    """A JSON Schema, of draft 2020-12 unless it names another; read when it is first needed.

    Args:
        path: a JSON file.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._find: Callable[[Any], list[str]] | None = None

    def __repr__(self) -> str:
        return f"SchemaFile({str(self.path)!r})"

    def load(self) -> None:
        """Read and check the schema, unless that was done.

        Raises:
            SchemaError: it cannot be read, is no schema, or refers to what is not there.
        """
        if self._find is None:
            # Imported here: children import handlers with schemas, and never validate.
            from feedback.records.json_schemas import compiled

            self._find = compiled(self.path)

    def fault(self, value: bytes | None) -> str | None:
        """Return what is wrong with a value, without the value; None when nothing is.

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


def fault_of(
    value: bytes | None, *, model: type | None = None, schema: SchemaFile | None = None
) -> str | None:
    """Return what is wrong with a value, without the value; None when nothing is.

    Args:
        model: a pydantic model that it must be.
        schema: what it must match.
    """
    if model is not None and (fault := _model_fault(model, value)) is not None:
        return fault
    return None if schema is None else schema.fault(value)


def _model_fault(model: type, value: bytes | None) -> str | None:
    validate: Callable[[bytes], object] = getattr(model, "model_validate_json")  # noqa: B009
    try:
        validate(value if value is not None else b"null")
    # Also what a validator of the user raises by mistake: a record must not end the worker.
    except BaseException as error:
        told = f"value is not a {name_of(model)}: {_places(error, model) or class_name(error)}"
        return _UNFIT.sub("?", told)[:FAULT_LIMIT]
    return None


def _places(error: BaseException, model: type) -> str:
    """Return what an error of pydantic's says, and nothing of one that only looks like it."""
    try:
        # pydantic's own text quotes the input, which may be a card number
        errors = getattr(error, "errors")  # noqa: B009
        faults = errors(include_url=False, include_context=False, include_input=False)[:SHOWN]
        names = _names_of(model)
        return ", ".join(f"{_place(one['loc'], names)}: {one['type']}" for one in faults)
    except BaseException:
        return ""


def _place(loc: Iterable[str | int], names: Collection[str]) -> str:
    shown = (str(one) if isinstance(one, int) or one in names else "*" for one in loc)
    return ".".join(shown)[:PLACE_LIMIT] or "value"


@lru_cache
def _names_of(model: type) -> frozenset[str]:
    """Return the names of all fields in a model: any other that a place has came with the value."""
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
        # A type of the user that has no schema, or cannot say it: then no name is known.
        with suppress(BaseException):
            collect(make())
    return frozenset(names)


def _refuse(constant: str) -> object:
    raise ValueError(constant)  # NaN and Infinity are Python's, not JSON's
