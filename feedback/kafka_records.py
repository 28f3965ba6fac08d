"""kafka-python's records as ours, also those that kafka-python itself stumbles over.

A header's name that is not UTF-8 is a corrupt record to it (3.0.12), at which a partition would
stop for ever; Kafka itself takes any bytes. Importing this module teaches it otherwise.
"""

from __future__ import annotations

from typing import Any

from kafka.record import memory_records
from kafka.record.default_records import DefaultRecord, DefaultRecordBatch
from kafka.record.util import decode_varint

from feedback.envelope import Record


def record_of(one: Any) -> Record:
    """Return what a consumer polled as a record of ours."""
    return Record(
        topic=one.topic,
        partition=one.partition,
        offset=one.offset,
        timestamp_ms=-1 if one.timestamp is None else one.timestamp,
        key=one.key,
        value=one.value,
        headers=tuple((name, value or b"") for name, value in one.headers or ()),
    )


class _TolerantBatch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch whose headers may have names that are not UTF-8."""

    _pos: int

    def _read_msg(self, *arguments: Any) -> Any:
        try:
            return super()._read_msg(*arguments)
        except UnicodeDecodeError:
            return self._read_with_any_names()

    def _read_with_any_names(self) -> Any:
        buffer = self._buffer
        length, start = decode_varint(buffer, self._pos)
        _, pos = decode_varint(buffer, start)
        timestamp_delta, pos = decode_varint(buffer, pos)
        offset_delta, pos = decode_varint(buffer, pos)
        key, pos = _nullable_bytes(buffer, pos)
        value, pos = _nullable_bytes(buffer, pos)
        count, pos = decode_varint(buffer, pos)
        headers = []
        for _ in range(count):
            name, pos = _nullable_bytes(buffer, pos)
            header, pos = _nullable_bytes(buffer, pos)
            headers.append(((name or b"").decode("utf-8", "replace"), header))
        self._pos = start + length
        is_append_time = self.timestamp_type == self.LOG_APPEND_TIME
        timestamp = self.max_timestamp if is_append_time else self.first_timestamp + timestamp_delta
        offset = self.base_offset + offset_delta
        kind = self.timestamp_type
        return DefaultRecord(length, offset, timestamp, kind, key, value, headers)


def _nullable_bytes(buffer: Any, pos: int) -> tuple[bytes | None, int]:
    size_bytes, pos = decode_varint(buffer, pos)
    if size_bytes < 0:
        return None, pos
    return bytes(buffer[pos : pos + size_bytes]), pos + size_bytes


memory_records.DefaultRecordBatch = _TolerantBatch
