"""Replaces one value of a JSON payload, by its path. Pure.

A path is a JSON pointer (`/card/number`) or dotted (`card.number`, `items.0.price`).

>>> Setting.parse("amount=7").applied(b'{"amount": "seven", "to": "Zoe"}')
b'{"amount":7,"to":"Zoe"}'
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from feedback.errors import SettingsError

_INDEX = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")


class CannotBeSet(Exception):
    """The payload has no such place, or is no JSON."""


class _Digits(str):
    """A number with its original digits."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A place in a JSON value, and its new value.

    Attributes:
        path: names and indexes from the whole value on; never empty.
        value: as JSON text.
    """

    path: tuple[str, ...]
    value: str

    @classmethod
    def parse(cls, text: str) -> Setting:
        """Return the setting `path=value`; a value that is not JSON is taken as text.

        Raises:
            SettingsError: there is no path, or no value.
        """
        path, equals, value = text.partition("=")
        if not equals or not path.strip("/."):
            raise SettingsError(f"--set {text}: write path=value, like amount=5 or /card/number=1")
        try:
            _read(value)
        except ValueError:
            value = json.dumps(value, ensure_ascii=False)
        return cls(_parts(path.strip()), value)

    @property
    def text(self) -> str:
        """The text that `parse` reads again."""
        escaped = (part.replace("~", "~0").replace("/", "~1") for part in self.path)
        return "".join(f"/{part}" for part in escaped) + f"={self.value}"

    def applied(self, payload: bytes | None) -> bytes:
        """Return the payload with the new value; a missing name of an object is added.

        Raises:
            CannotBeSet: the payload has no such place, or is no JSON.
        """
        try:
            whole = _read(payload or b"")
            *outer, last = self.path
            place = whole
            for part in outer:
                place = place[_key(place, part, is_last=False)]
            place[_key(place, last, is_last=True)] = _read(self.value)
            return _written(whole).encode("utf-8", "surrogatepass")
        except (ValueError, RecursionError):
            raise CannotBeSet("it is no JSON") from None


def _parts(path: str) -> tuple[str, ...]:
    if not path.startswith("/"):
        return tuple(path.split("."))
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in path[1:].split("/"))


def _key(place: Any, part: str, *, is_last: bool) -> str | int:
    match place:
        case dict() if is_last or part in place:
            return part
        case list() if _INDEX.match(part) and int(part) < len(place):
            return int(part)
    raise CannotBeSet(f"it has no place {part!r}")


def _read(text: str | bytes) -> Any:
    return json.loads(text, parse_float=_Digits, parse_int=_Digits, parse_constant=_refuse)


def _written(value: Any) -> str:
    match value:
        case _Digits():
            return str(value)
        case dict():
            pairs = (f"{_written(name)}:{_written(one)}" for name, one in value.items())
            return "{" + ",".join(pairs) + "}"
        case list():
            return "[" + ",".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
