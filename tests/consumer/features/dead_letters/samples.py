"""Failures, records and letters as the unit tests need them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from consumer.journal.records import Row
from consumer.journal.waiting import OwedRow
from feedback.errors import KafkaUnavailable
from feedback.kafka.outgoing import Outgoing
from feedback.records.envelope import Headers, Record
from tests.consumer.samples import row

FAILED_AT = 1_700_000_005_000


def failed(request_id: str = "a", **facts: Any) -> Row:
    """Return the row of a request whose handler raised, unless told otherwise."""
    known: dict[str, Any] = {
        "claimed_at": FAILED_AT - 1000,
        "finished_at": FAILED_AT,
        "code": "HANDLER_ERROR",
        "message": "OSError: the bank is on fire",
    }
    return row(request_id, "FAILED", **known | facts)


def dead(request_id: str = "a", *, first_failed_at: int | None = None, **facts: Any) -> OwedRow:
    """Return a failure that waits for its letter."""
    return OwedRow(failed(request_id, **facts), first_failed_at)


def texts(headers: Headers) -> dict[str, str]:
    """Return headers as text, which each of these has only once."""
    names = [name for name, _ in headers]
    assert len(names) == len(set(names))
    return {name: value.decode("utf-8") for name, value in headers}


class Payloads:
    """Knows records by their offsets."""

    def __init__(self, *records: Record) -> None:
        self.records = {one.offset: one for one in records}
        self.error: KafkaUnavailable | None = None
        self.asked = 0

    def of(self, row: Row) -> Record | None:
        """Return the record of a row."""
        self.asked += 1
        if self.error is not None:
            raise self.error
        return self.records.get(row.offset)

    def close(self) -> None:
        """Nothing is open."""


class Topics:
    """Has every topic but those that a test takes away."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, int]] = []
        self.forgotten: list[str] = []
        self.missing: dict[str, KafkaUnavailable] = {}

    def ensure(self, name: str, *, like: str, room_bytes: int = 0) -> None:
        """Note what was asked for."""
        if name in self.missing:
            raise self.missing[name]
        self.made.append((name, like, room_bytes))

    def forget(self, name: str) -> None:
        """Note what was forgotten."""
        self.forgotten.append(name)


class Writer:
    """Takes every record, but for what `judge` says of it."""

    def __init__(self) -> None:
        self.judge: Callable[[Outgoing], KafkaUnavailable | None] = lambda record: None
        self.taken: list[Outgoing] = []
        self.calls: list[int] = []

    def write(self, records: Sequence[Outgoing]) -> list[KafkaUnavailable | None]:
        """Return what became of each."""
        self.calls.append(len(records))
        said = [self.judge(one) for one in records]
        self.taken += [one for one, error in zip(records, said, strict=True) if error is None]
        return said

    def close(self) -> None:
        """Nothing is open."""
