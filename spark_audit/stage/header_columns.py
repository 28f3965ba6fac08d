"""The headers of a Kafka record as Spark columns, each read once.

Every column is one of Spark's own expressions, and none a lambda: Spark compiles the former only.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column
from pyspark.sql import functions as F

_NUMBER = r"\A[0-9]{1,18}\z"


@dataclass(frozen=True, slots=True)
class Headers:
    """All headers of a record.

    Args:
        names: array of text; null where a record has none.
        values: array of bytes, in the same order.
    """

    names: Column
    values: Column

    def first_text(self, name: str) -> Column:
        """Return the first header of this name as text; null where there is none."""
        return _as_text(self.value(self.position(name)))

    def last_text(self, name: str) -> Column:
        """Return the last header of this name as text; null where there is none."""
        return Headers(F.reverse(self.names), F.reverse(self.values)).first_text(name)

    def first_number(self, name: str) -> Column:
        """Return the first header of this name as a number; null where it is none."""
        text = self.first_text(name)
        return F.when(text.rlike(_NUMBER), text.try_cast("long"))

    def position(self, name: str) -> Column:
        """Return where the first of this name stands, from one on; zero where there is none."""
        return F.coalesce(F.array_position(self.names, name), F.lit(0).cast("long"))

    def value(self, position: Column) -> Column:
        """Return the bytes that stand there; null where nothing does."""
        return F.get(self.values, (position - 1).cast("int"))

    def is_repeated(self, name: str) -> Column:
        """Return whether there are several of this name. False or null where there is none."""
        others = F.size(F.array_remove(self.names, name))
        return (self.position(name) > 0) & (F.size(self.names) - others > 1)


class Header:
    """One header, in columns of its own: a projection that has them has read it once for all.

    Args:
        name: the header's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._is_there, self._is_repeated, self._text = (
            f"_{what} {name}" for what in ("is_there", "is_repeated", "text")
        )

    def columns(self, headers: Headers) -> dict[str, Column]:
        """Return the columns that the others are made of, by name."""
        position = headers.position(self._name)
        # A header without a value counts as an empty one.
        value = F.coalesce(headers.value(position), F.lit(b""))
        return {
            self._is_there: position > 0,
            self._is_repeated: headers.is_repeated(self._name),
            self._text: value.cast("string"),
        }

    @property
    def is_there(self) -> Column:
        """Whether the record has one."""
        return F.col(self._is_there)

    @property
    def text(self) -> Column:
        """The first one's; empty where there is none."""
        return F.col(self._text)

    def is_malformed(self, is_right: Column) -> Column:
        """Return whether it is there and repeated, or there and not right."""
        return self.is_there & (F.col(self._is_repeated) | ~is_right)


def _as_text(raw: Column) -> Column:
    # Anybody may have written it: bytes that are not UTF-8 must not reach a Parquet file's text.
    return F.make_valid_utf8(raw.cast("string"))
