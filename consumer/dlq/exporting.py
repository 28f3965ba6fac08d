"""Writes letters to a file for analysis: whole, or not at all under its name.

Letters are written page by page: memory does not grow with their number.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from consumer.dlq.columns import row_of
from consumer.dlq.listing import Judged
from consumer.dlq.standing import Standing
from feedback.errors import NotAvailable, SettingsError

STDOUT = "-"


class Sheet(Protocol):
    """Takes rows."""

    def add(self, rows: list[dict[str, Any]]) -> None: ...


class JsonLines:
    """Rows as JSON, one a line.

    Args:
        stream: where to.
    """

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Write rows."""
        self._stream.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


def export(pages: Iterable[list[Judged]], target: str, *, shown: Collection[Standing]) -> int:
    """Write letters; return how many.

    Args:
        target: a file whose name ends in `.parquet` or `.jsonl`, or `-` for standard output.
        shown: the standings to write.

    Raises:
        SettingsError: the name has another ending.
        NotAvailable: the file cannot be written, or Parquet's library is not installed.
    """
    count = 0
    with _sheet(target) as sheet:
        for page in pages:
            rows = [row_of(*one) for one in page if one.standing in shown]
            sheet.add(rows)
            count += len(rows)
    return count


@contextmanager
def _sheet(target: str) -> Iterator[Sheet]:
    if target == STDOUT:
        yield JsonLines(sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif target.endswith(".jsonl"):
        with _whole_or_not(Path(target)) as part, part.open("xb") as stream:
            yield JsonLines(stream)
    elif target.endswith(".parquet"):
        # Imported only here: most exports do not need it.
        from consumer.dlq.parquet import parquet_sheet

        with _whole_or_not(Path(target)) as part, parquet_sheet(part) as sheet:
            yield sheet
    else:
        raise SettingsError(f"{target}: name a file that ends in .parquet or .jsonl, or - alone")


@contextmanager
def _whole_or_not(path: Path) -> Iterator[Path]:
    """Yield a file beside `path` that takes its name when all is written, and else is removed."""
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        yield part
        descriptor = os.open(part, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        part.replace(path)
    except OSError as error:
        raise NotAvailable(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink()
