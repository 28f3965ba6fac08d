"""Writes letters to a file for analysis: whole, or not at all under its name.

Letters are written page by page: memory does not grow with their number. There is a row for each
letter. Bytes stand as text where they are UTF-8, else in base64; a column beside says which. Times
are epoch milliseconds; one that no calendar has is left out.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from consumer.dlq.as_json import bytes_json, failure_facts, place_json, utf8_or_none
from consumer.dlq.letter import Letter
from consumer.dlq.letter_state import LetterState
from consumer.dlq.listing import JudgedLetter
from feedback.errors import NotAvailable, SettingsError
from feedback.files import new_private_file
from feedback.records.envelope import MAX_EPOCH_MS

STDOUT = "-"
TEXT, NUMBER, TIME = "text", "number", "time"
# The rows of one group before it is written; they must fit into memory several times.
GROUP_ROWS = 20_000
GROUP_BYTES = 8 * 2**20

AddRows = Callable[[list[dict[str, Any]]], None]

COLUMNS = {
    "request_id": TEXT,
    "state": TEXT,
    "dialect": TEXT,
    "dlq_topic": TEXT,
    "dlq_partition": NUMBER,
    "dlq_offset": NUMBER,
    "dlq_timestamp": TIME,
    "topic": TEXT,
    "partition": NUMBER,
    "offset": NUMBER,
    "timestamp": TIME,
    "reason": TEXT,
    "code": TEXT,
    "stage": TEXT,
    "exception_class": TEXT,
    "exception_message": TEXT,
    "stacktrace": TEXT,
    "attempts": NUMBER,
    "first_failed_at": TIME,
    "failed_at": TIME,
    "redrive_count": NUMBER,
    "redrive_id": TEXT,
    "redrive_by": TEXT,
    "group": TEXT,
    "key": TEXT,
    "key_encoding": TEXT,
    "value": TEXT,
    "value_encoding": TEXT,
    # A JSON list, since names may be repeated.
    "headers": TEXT,
}


def letter_columns(letter: Letter, state: LetterState) -> dict[str, Any]:
    """Return all columns of a letter."""
    record = letter.record
    headers = [{"name": name, **bytes_json("value", raw)} for name, raw in letter.headers]
    facts: dict[str, Any] = {
        "request_id": letter.request_id,
        "state": state.value,
        "dialect": letter.dialect.value,
        **place_json(*record[:4]),
        **failure_facts(letter.failure),
    }
    return {
        **{name: _time(one) if COLUMNS[name] == TIME else one for name, one in facts.items()},
        **_bytes("key", letter.key),
        **_bytes("value", letter.value),
        "headers": json.dumps(headers),
    }


def _time(ms: int | None) -> int | None:
    return ms if ms is not None and 0 <= ms <= MAX_EPOCH_MS else None


def _bytes(name: str, raw: bytes | None) -> dict[str, str | None]:
    if raw is None:
        return {name: None, f"{name}_encoding": None}
    text = utf8_or_none(raw)
    if text is not None:
        return {name: text, f"{name}_encoding": "utf-8"}
    return {name: base64.b64encode(raw).decode(), f"{name}_encoding": "base64"}


def export(
    pages: Iterable[list[JudgedLetter]], target: str, *, shown: Collection[LetterState]
) -> int:
    """Write letters; return how many.

    Args:
        shown: the states to write.
    """
    return export_rows(
        (
            [letter_columns(one.letter, one.state) for one in page if one.state in shown]
            for page in pages
        ),
        target,
    )


def export_rows(pages: Iterable[list[dict[str, Any]]], target: str) -> int:
    """Write rows; return how many.

    Args:
        target: a file whose name ends in `.parquet` or `.jsonl`, or `-` for standard output.

    Raises:
        SettingsError: the name has another ending.
        NotAvailable: the file cannot be written, or Parquet's library is not installed.
    """
    count = 0
    with _opened(target) as add:
        for rows in pages:
            add(rows)
            count += len(rows)
    return count


@contextmanager
def _opened(target: str) -> Iterator[AddRows]:
    """Yield the function that writes rows to a target."""
    if target == STDOUT:
        yield partial(_add_json_lines, sys.stdout.buffer)
        sys.stdout.buffer.flush()
    elif target.endswith(".jsonl"):
        with _whole_or_not(Path(target)) as stream:
            yield partial(_add_json_lines, stream)
    elif target.endswith(".parquet"):
        with _whole_or_not(Path(target)) as stream, parquet_sheet(stream) as sheet:
            yield sheet.add
    else:
        raise SettingsError(f"{target}: name a file that ends in .parquet or .jsonl, or - alone")


def _add_json_lines(stream: IO[bytes], rows: list[dict[str, Any]]) -> None:
    stream.write(b"".join(json.dumps(row).encode() + b"\n" for row in rows))


@contextmanager
def _whole_or_not(path: Path) -> Iterator[BinaryIO]:
    """Yield a file beside `path` that takes its name when all is written, and else is removed.

    Its owner alone may read it: payloads stand in it.
    """
    part = path.with_name(f".{uuid.uuid4().hex}.part")
    try:
        with new_private_file(part) as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        raise NotAvailable(f"{path} cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            part.unlink()


class ParquetSheet:
    """Collects rows and writes them group by group."""

    def __init__(self, arrow: Any, schema: Any, writer: Any) -> None:
        self._arrow = arrow
        self._schema = schema
        self._writer = writer
        self._rows: list[dict[str, Any]] = []
        self._size_bytes = 0

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Write rows, some of them later."""
        for row in rows:
            self._rows.append(row)
            self._size_bytes += len(row["value"] or "") + len(row["headers"] or "")
            if len(self._rows) >= GROUP_ROWS or self._size_bytes >= GROUP_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write the collected rows."""
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, self._schema))
        self._rows, self._size_bytes = [], 0


@contextmanager
def parquet_sheet(stream: BinaryIO) -> Iterator[ParquetSheet]:
    """Yield a sheet that writes rows into a new file; without rows it still has its columns.

    Raises:
        NotAvailable: pyarrow is not installed.
    """
    try:
        import pyarrow
        from pyarrow import parquet
    except ModuleNotFoundError as error:
        raise NotAvailable(
            "Parquet needs pyarrow: pip install 'onceward[parquet]', or name a .jsonl file"
        ) from error
    types = {
        TEXT: pyarrow.large_string(),
        NUMBER: pyarrow.int64(),
        TIME: pyarrow.timestamp("ms", tz="UTC"),
    }
    schema = pyarrow.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    with parquet.ParquetWriter(stream, schema, compression="zstd") as writer:
        sheet = ParquetSheet(pyarrow, schema, writer)
        yield sheet
        sheet.flush()
