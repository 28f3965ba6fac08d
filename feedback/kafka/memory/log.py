"""The log of one partition: records, marks of transactions, and offsets that hold nothing."""

from __future__ import annotations

from typing import NamedTuple

from feedback.kafka.memory.transaction import MemoryTransaction, TransactionState
from feedback.kafka.probes import SilentOffsets
from feedback.records.envelope import Record


class LogEntry(NamedTuple):
    """One offset.

    Attributes:
        record: None for a mark of a transaction.
        transaction: that of the record; None where it has none.
    """

    record: Record | None = None
    transaction: MemoryTransaction | None = None

    @property
    def is_silent(self) -> bool:
        """Whether nobody who reads committed records ever sees it."""
        of = self.transaction
        return self.record is None or (of is not None and of.state is TransactionState.ABORTED)


class MemoryLog:
    """One partition. The broker's lock guards it.

    Attributes:
        begin: the first offset that it still has.
    """

    def __init__(self) -> None:
        self.begin = 0
        # At the place of an offset; None for a record that was removed.
        self._entries: list[LogEntry | None] = []
        self._open: dict[MemoryTransaction, int] = {}

    @property
    def end(self) -> int:
        """The offset behind the last record or mark."""
        return len(self._entries)

    @property
    def committed_end(self) -> int:
        """The offset before which all transactions have ended."""
        return min(self._open.values(), default=self.end)

    def append(self, record: Record, transaction: MemoryTransaction | None = None) -> None:
        """Write a record; its offset is `end`."""
        if transaction is not None and transaction not in self._open:
            self._open[transaction] = self.end
            transaction.marks[self] = lambda: self._close(transaction)
        self._entries.append(LogEntry(record, transaction))

    def mark(self) -> None:
        """Write a mark, which no reader sees."""
        self._entries.append(LogEntry())

    def _close(self, transaction: MemoryTransaction) -> None:
        del self._open[transaction]
        self.mark()

    def read(self, offset: int, *, most: int, committed_only: bool) -> tuple[list[Record], int]:
        """Return records from an offset on, and the next offset to read."""
        end = self.committed_end if committed_only else self.end
        found: list[Record] = []
        while offset < end and len(found) < most:
            entry = self._entries[offset]
            offset += 1
            if entry is None or entry.record is None or (committed_only and entry.is_silent):
                continue
            found.append(entry.record)
        return found, offset

    def offset_at(self, epoch_ms: int) -> int:
        """Return the offset of the first record that is not before a time; -1: none is."""
        for offset in range(self.begin, self.end):
            entry = self._entries[offset]
            record = None if entry is None else entry.record
            if record is not None and record.timestamp_ms >= epoch_ms:
                return offset
        return -1

    def silent(self, first: int, after: int) -> list[SilentOffsets]:
        """Return the stretches of offsets that hold no committed records, in order."""
        found: list[SilentOffsets] = []
        for offset in range(first, min(after, self.committed_end)):
            entry = self._entries[offset]
            if entry is None or not entry.is_silent:
                continue
            if found and found[-1][1] == offset:
                found[-1] = (found[-1][0], offset + 1)
            else:
                found.append((offset, offset + 1))
        return found

    def delete_before(self, offset: int) -> None:
        """Forget the records before an offset, as retention does."""
        self.begin = min(max(offset, self.begin), self.end)
        self._entries[: self.begin] = [None] * self.begin

    def remove(self, offset: int) -> None:
        """Remove one record, as compaction does: its offset stays."""
        self._entries[offset] = None
