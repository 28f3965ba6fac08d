"""A worker's memory of the runs that ended here: the database may lose their ends."""

from __future__ import annotations

from consumer.journal import OwnRun
from feedback.clock import epoch_ms

# Some 20,000 small runs: an asynchronous commit, or a standby, lags by seconds.
LIMIT_BYTES = 16 * 1024 * 1024
# Of an entry beside its texts.
ENTRY_BYTES = 700
# How long after its deadline a run is remembered: no claim is granted then, and the id of a pruned
# request may come again with another one.
AFTER_DEADLINE_MS = 3_600_000


class EndedRuns:
    """The latest run of each request that ended here, the oldest forgotten first.

    Belongs to the loop's thread.

    Args:
        limit_bytes: about as much memory as it takes; 0 remembers nothing.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit_bytes = limit_bytes
        self._runs: dict[str, OwnRun] = {}
        self._bytes = 0

    def note(self, one: OwnRun) -> None:
        """Remember how a run ended; an older run of its request is remembered no more."""
        self._forget(one.request_id)
        self._runs[one.request_id] = one
        self._bytes += _size(one)
        while self._bytes > self._limit_bytes:
            self._forget(next(iter(self._runs)))

    def of(self, request_id: str) -> OwnRun | None:
        """Return the latest run of a request that ended here, as far as it is remembered."""
        one = self._runs.get(request_id)
        if one is not None and one.claim.deadline_at + AFTER_DEADLINE_MS <= epoch_ms():
            self._forget(request_id)
            return None
        return one

    def _forget(self, request_id: str) -> None:
        one = self._runs.pop(request_id, None)
        if one is not None:
            self._bytes -= _size(one)


def _size(one: OwnRun) -> int:
    end = one.finish
    texts = () if end is None else (end.result, end.message)
    return ENTRY_BYTES + len(one.claim.message_key or b"") + sum(len(text or "") for text in texts)
