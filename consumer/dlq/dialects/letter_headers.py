"""Reads a record of a dead letter topic, in any dialect. Pure."""

from __future__ import annotations

import struct

from consumer.dlq.dialects.header_formats import FORMATS, HeaderFormat
from consumer.dlq.letter import Dialect, Failure, Letter, Original
from feedback.errors import InvalidMessage
from feedback.records.dead_letters import DLQ_REQUEST_ID
from feedback.records.envelope import REQUEST_ID, Headers, Record, check_request_id
from feedback.records.failure_headers import DLQ_REDRIVE_COUNT, MAX_PARTITION, number_of

_BIG_ENDIAN = {1: ">b", 2: ">h", 4: ">i", 8: ">q"}


class LetterHeaders:
    """Headers by name."""

    def __init__(self, headers: Headers) -> None:
        # Looked up by None too: a dialect without such a header.
        self._last: dict[str | None, bytes] = dict(headers)
        # Most letters have no name twice.
        is_once = len(self._last) == len(headers)
        self._first: dict[str | None, bytes] = self._last if is_once else dict(reversed(headers))

    def has(self, *names: str) -> bool:
        """Whether any of these names is there."""
        return not self._last.keys().isdisjoint(names)

    def raw(self, name: str | None, *, first: bool = False) -> bytes | None:
        """Return a header's bytes."""
        return (self._first if first else self._last).get(name)

    def text(self, name: str | None, *, first: bool = False) -> str | None:
        """Return a header as text; None for an empty one and for null."""
        raw = (self._first if first else self._last).get(name)
        return raw.decode("utf-8", "replace") if raw else None

    def decimal(self, name: str | None, *, first: bool = False) -> int | None:
        """Return a number that was written as text."""
        return number_of((self._first if first else self._last).get(name))

    def partition(self, name: str, *, is_binary: bool) -> int | None:
        """Return a partition; in binary it has 4 bytes, and any other length is not believed."""
        raw = self.raw(name, first=True)
        if not is_binary:
            return number_of(raw, largest=MAX_PARTITION)
        return self.binary(name, first=True) if raw is not None and len(raw) == 4 else None

    def binary(self, name: str | None, *, first: bool = False) -> int | None:
        """Return a number that was written big-endian, in as many bytes as it has."""
        raw = self.raw(name, first=first)
        if raw is None or len(raw) not in _BIG_ENDIAN:
            return None
        (number,) = struct.unpack(_BIG_ENDIAN[len(raw)], raw)
        return int(number) if number >= 0 else None


def simple_name(error_class: str | None) -> str | None:
    """Return a class name without its package: short enough to count by."""
    return None if error_class is None else error_class.rpartition(".")[2] or error_class


# A letter that was itself sent again, to the handler of dead letters, has an id of its own.
_ID_HEADERS = (DLQ_REQUEST_ID, REQUEST_ID)


def letter_of(record: Record) -> Letter:
    """Return a record as a dead letter; without known headers it still is one."""
    headers = LetterHeaders(record.headers)
    written = next((one for one in FORMATS if _is_of(headers, one)), None)
    if written is None:
        request_id = _request_id(headers, record, Original())
        return Letter(record, Dialect.NONE, request_id, Failure(), record.key)
    failure = _failure(headers, written)
    request_id = _request_id(headers, record, failure.original)
    key = record.key
    if written.dialect is Dialect.KARAFKA:
        # A record without a key and one with an empty key leave the same letter; the first is the
        # likelier by far.
        key = headers.raw(written.key, first=True) or None
    return Letter(record, written.dialect, request_id, failure, key)


def without_own(dialect: Dialect, headers: Headers) -> Headers:
    """Return the headers that the dialect did not write, in their order; for our dialect all."""
    for one in FORMATS:
        own = one.own
        if one.dialect is dialect and own and any(own.match(name) for name, _ in headers):
            return [header for header in headers if not own.match(header[0])]
    return headers


def _is_of(headers: LetterHeaders, written: HeaderFormat) -> bool:
    if written.needs_all_marks:
        return all(headers.has(mark) for mark in written.marks)
    return headers.has(*written.marks)


def _failure(headers: LetterHeaders, of: HeaderFormat) -> Failure:
    number = headers.binary if of.is_binary else headers.decimal
    first = of.is_first
    classes = (headers.text(name, first=first) for name in of.exception_class)
    error_class = next((one for one in classes if one is not None), None)
    if error_class is not None and of.class_end is not None:
        error_class = error_class.partition(of.class_end)[0]
    reason = headers.text(of.reason)
    is_ours = of.dialect is Dialect.ONCEWARD
    return Failure(
        original=Original(
            topic=headers.text(of.topic, first=True),
            partition=headers.partition(of.partition, is_binary=of.is_binary),
            offset=number(of.offset, first=True),
            timestamp_ms=number(of.timestamp, first=True),
            key=headers.text(of.key, first=True),
        ),
        reason=reason if is_ours else of.constant_reason or simple_name(error_class),
        code=reason if is_ours else None,
        stage=headers.text(of.stage),
        exception_class=error_class,
        exception_message=_message(headers, of),
        stack=headers.text(of.stack),
        attempts=number(of.attempts),
        first_failed_at=number(of.first_failed_at),
        failed_at=number(of.failed_at),
        # Ours, whoever wrote the letter: other systems keep the headers of what failed.
        redrive_count=headers.decimal(DLQ_REDRIVE_COUNT) or 0,
        redrive_id=headers.text(of.redrive_id),
        redrive_by=headers.text(of.redrive_by),
        group=headers.text(of.group),
    )


def _message(headers: LetterHeaders, of: HeaderFormat) -> str | None:
    message = headers.text(of.exception_message, first=of.is_first)
    cause = headers.text(of.cause, first=of.is_first)
    if cause is None or cause == message:
        return message
    return cause if message is None else f"{message}; caused by {cause}"


def _request_id(headers: LetterHeaders, record: Record, original: Original) -> str:
    for name in _ID_HEADERS:
        given = headers.text(name)
        if given is not None and _is_request_id(given):
            return given
    topic, partition, offset, timestamp_ms, _ = original
    if topic is None or partition is None or offset is None or timestamp_ms is None:
        return record.coordinates_id
    return Record(topic, partition, offset, timestamp_ms, None, None, ()).coordinates_id


def _is_request_id(text: str) -> bool:
    try:
        check_request_id(text)
    except InvalidMessage:
        return False
    return True
