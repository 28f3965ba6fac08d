"""The headers of a letter, looked up by the dialects. Their writer is not trusted."""

from __future__ import annotations

import struct

from feedback.records.envelope import Headers
from feedback.records.failure_headers import MAX_PARTITION, number_of

_BIG_ENDIAN = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}


class LetterHeaders:
    """Headers by name.

    Args:
        headers: all of a record, in their order.
    """

    def __init__(self, headers: Headers) -> None:
        # Looked up by None too: a dialect without such a header.
        self._last: dict[str | None, bytes] = dict(headers)
        # Most letters have no name twice.
        is_once = len(self._last) == len(headers)
        self._first: dict[str | None, bytes] = self._last if is_once else dict(reversed(headers))

    def has(self, *names: str) -> bool:
        """Whether any of these names is there."""
        return not self._last.keys().isdisjoint(names)

    def raw(self, name: str | None, *, first: bool = False) -> bytes | None:
        """Return a header's bytes."""
        return (self._first if first else self._last).get(name)

    def text(self, name: str | None, *, first: bool = False) -> str | None:
        """Return a header as text; None for an empty one and for null."""
        raw = (self._first if first else self._last).get(name)
        return raw.decode("utf-8", "replace") if raw else None

    def decimal(self, name: str | None, *, first: bool = False) -> int | None:
        """Return a number that was written as text."""
        return number_of((self._first if first else self._last).get(name))

    def partition(self, name: str, *, is_binary: bool) -> int | None:
        """Return a partition; in binary it has 4 bytes, and any other length is not believed."""
        raw = self.raw(name, first=True)
        if not is_binary:
            return number_of(raw, largest=MAX_PARTITION)
        return self.binary(name, first=True) if raw is not None and len(raw) == 4 else None

    def binary(self, name: str | None, *, first: bool = False) -> int | None:
        """Return a number that was written big-endian, in as many bytes as it has."""
        raw = self.raw(name, first=first)
        if raw is None or len(raw) not in _BIG_ENDIAN:
            return None
        (number,) = struct.unpack(_BIG_ENDIAN[len(raw)], raw)
        return int(number) if number >= 0 else None


def simple_name(error_class: str | None) -> str | None:
    """Return a class name without its package: short enough to count by."""
    return None if error_class is None else error_class.rpartition(".")[2] or error_class
