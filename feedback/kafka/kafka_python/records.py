"""Converts kafka-python's records into ours, even those that it cannot read itself.

To kafka-python 3.0.12 a header's name that is not UTF-8 is a corrupt record, at which a partition
would stop for ever; Kafka itself accepts any bytes. Its producer refuses a header that is null, and
compresses by gzip as small as that can. Importing this module mends all three.
"""

from __future__ import annotations

import gzip
from typing import Any

from kafka.record import memory_records
from kafka.record.default_records import (
    DefaultRecord,
    DefaultRecordBatch,
    DefaultRecordBatchBuilder,
)
from kafka.record.util import decode_varint

import feedback.kafka.kafka_python.logs  # noqa: F401 - mends kafka-python for this process
from feedback.records.envelope import NULL_HEADER, NullHeader, Record


def record_of(one: Any) -> Record:
    """Return a polled record as a record of ours."""
    return Record(
        topic=one.topic,
        partition=one.partition,
        offset=one.offset,
        timestamp_ms=-1 if one.timestamp is None else one.timestamp,
        key=one.key,
        value=one.value,
        headers=tuple(
            [(name, NULL_HEADER if value is None else value) for name, value in one.headers or ()]
        ),
    )


class _OurBatch(DefaultRecordBatch):  # type: ignore[misc]
    """A batch whose headers may have names that are not UTF-8.

    A dead letter consists mostly of headers, and their lengths are mostly one byte. Without a call
    for each length, a letter is read in half the time.
    """

    _pos: int

    def _read_msg(self, *arguments: Any) -> Any:
        if self.is_control_batch:
            return super()._read_msg(*arguments)
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
            size = buffer[pos]
            # Longer than 63, or negative: the low bit is the sign, the high one says that more
            # bytes follow.
            if size & 0x81:
                size, pos = decode_varint(buffer, pos)
                if size < 0:
                    raise ValueError("a header without a name")
            else:
                size >>= 1
                pos += 1
            name = str(buffer[pos : pos + size], "utf-8", "replace")
            pos += size
            size = buffer[pos]
            if size & 0x81:
                header, pos = _nullable_bytes(buffer, pos)
            else:
                begin = pos + 1
                pos = begin + (size >> 1)
                header = bytes(buffer[begin:pos])
            headers.append((name, header))
        if count < 0 or pos - start != length:
            raise ValueError("a record whose length field is wrong")
        self._pos = pos
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


# As other clients compress. Measured: the smallest takes up to four times as long, for 2 % less.
GZIP_LEVEL = 6
GZIP_SMALLEST = 9


class _OurBuilder(DefaultRecordBatchBuilder):  # type: ignore[misc]
    """A batch in the making, whose headers may be null."""

    _buffer: bytearray

    def append(self, offset: Any, timestamp: Any, key: Any, value: Any, headers: Any) -> Any:
        """Add a record; see kafka-python."""
        for _, one in headers:
            if isinstance(one, NullHeader):
                headers = [
                    (name, None if isinstance(given, NullHeader) else given)
                    for name, given in headers
                ]
                break
        return super().append(offset, timestamp, key, value, headers)

    def _maybe_compress(self) -> bool:
        if self._compression_type != self.CODEC_GZIP:
            return bool(super()._maybe_compress())
        begin = self.HEADER_STRUCT.size
        whole = bytes(self._buffer[begin:])
        # A batch that is too large for its topic is split until each record is alone.
        level = GZIP_SMALLEST if self._num_records == 1 else GZIP_LEVEL
        packed = gzip.compress(whole, level, mtime=0)
        if len(packed) >= len(whole):
            return False
        self._buffer[begin:] = packed
        return True


memory_records.DefaultRecordBatch = _OurBatch
memory_records.DefaultRecordBatchBuilder = _OurBuilder
