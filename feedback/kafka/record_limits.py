"""The rules of a record that hold before any broker is asked: its size, its topic's name. Pure."""

from __future__ import annotations

import re

_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}\Z")
# Of a batch with one record, and of the record's fixed fields at most.
_AROUND_BYTES = 61 + 21


def is_legal(name: str) -> bool:
    """Say whether a topic can have this name.

    >>> is_legal("orders"), is_legal("no topic"), is_legal("..")
    (True, False, False)
    """
    return bool(_NAME.match(name)) and name not in {".", ".."}


def fault_of_record(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]
) -> str | None:
    """Return why nobody takes such a record; None where that depends on its size alone.

    >>> fault_of_record(None, None, []), fault_of_record(None, b"v", [])
    ('Need at least one: key or value', None)
    """
    parts = [one for one in (key, value) if one is not None]
    if not parts:
        return "Need at least one: key or value"
    parts += [content for _, content in headers]
    if not all(isinstance(one, bytes) for one in parts):
        return "a key, a value or a header is not of bytes"
    return None


def size_of(key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes]]) -> int:
    """Return how many bytes count for a record, at most: as many as with all engines.

    >>> size_of(None, b"v", [("h", b"")])
    89
    """
    names = [part for name, content in headers for part in (name.encode(), content)]
    parts = [key, value, *names]
    return _AROUND_BYTES + _varint(len(headers)) + sum(map(_size_of_part, parts))


def _size_of_part(part: bytes | None) -> int:
    return 1 if part is None else _varint(len(part)) + len(part)


def _varint(number: int) -> int:
    """Return the bytes of a number, of which one bit is its sign and each byte holds seven."""
    return max(1, -(-(number.bit_length() + 1) // 7))
