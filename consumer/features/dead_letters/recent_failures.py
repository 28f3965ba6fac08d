"""A worker's memory of its failures: the record, and the error of the handler.

Only a shortcut: a record that is forgotten here, or with the worker, is read again from its topic.
Class and stack of the error are lost then.
"""

from __future__ import annotations

from typing import NamedTuple

from consumer.features.outgoing.recent_runs import RecentRuns
from consumer.loop.mapping import Run
from consumer.pool.outcome import Raised
from feedback.records.envelope import Record

LIMIT_BYTES = 32 * 2**20
# The memory of an entry beside its bytes.
ENTRY_BYTES = 1000


class Failed(NamedTuple):
    """A record whose request has failed.

    Args:
        raised: the error of its handler, if there was one.
    """

    record: Record
    raised: Raised | None

    @property
    def size_bytes(self) -> int:
        """Its size in memory, nearly."""
        record = self.record
        headers = sum(len(name) + len(value) for name, value in record.headers)
        stack = len(self.raised.stack) if self.raised is not None else 0
        return ENTRY_BYTES + len(record.key or b"") + len(record.value or b"") + headers + stack


class RecentFailures(RecentRuns[Failed]):
    """Remembers the latest failures. Safe to share between threads.

    Args:
        limit_bytes: how much is remembered at most; the oldest is forgotten first.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        super().__init__(limit_bytes)

    def failed(self, run: Run, record: Record, raised: Raised | None) -> None:
        """Hear of a failure whose row is in the journal; returns at once."""
        one = Failed(record, raised)
        self.remember(run, one, size=one.size_bytes)
        self.news.set()
