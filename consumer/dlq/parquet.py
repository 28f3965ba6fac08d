"""Rows as Parquet, by pyarrow, which is an optional dependency."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from consumer.dlq.columns import COLUMNS, NUMBER, TEXT, TIME
from feedback.errors import NotAvailable

# The rows of one group before it is written; they must fit into memory several times.
GROUP_ROWS = 20_000
GROUP_BYTES = 8 * 2**20


class ParquetSheet:
    """Collects rows and writes them group by group.

    Args:
        arrow: the module.
        schema: of the columns.
        writer: takes the groups.
    """

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
            self._size_bytes += len(row["value"] or "") + len(row["headers"])
            if len(self._rows) >= GROUP_ROWS or self._size_bytes >= GROUP_BYTES:
                self.flush()

    def flush(self) -> None:
        """Write the collected rows."""
        if self._rows:
            self._writer.write_table(self._arrow.Table.from_pylist(self._rows, self._schema))
        self._rows, self._size_bytes = [], 0


@contextmanager
def parquet_sheet(path: Path) -> Iterator[ParquetSheet]:
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
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        sheet = ParquetSheet(pyarrow, schema, writer)
        yield sheet
        sheet.flush()
