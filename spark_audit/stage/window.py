"""The span of time whose requests a run judges.

Kafka names the first record that is not before a time. By then the day is over, if the log is in
the order of its times; a clock that is wrong puts such a record in the middle of the day. So
records behind it are looked at, close by first and each twice as far as the one before: where one
of them is of the day still, the log's end is taken. So it is where the first one is no record any
more, or is of a time to come: the offset that Kafka named then says nothing of the day's end. To
read too much costs time; to read too little would give a part of the day to the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from feedback.errors import KafkaUnavailable, NotAvailable, SettingsError
from feedback.kafka.questions import KafkaQuestions
from feedback.kafka.reader import RecordReader
from feedback.kafka.values import Partition
from feedback.logs import EventLog
from feedback.settings.settings import KafkaSection

# Records that come so long after the day belong to the run of the next one, at any record time.
LATE_MS = 3_600_000
READ_LIMIT_S = 10.0

log = EventLog("onceward.audit")


def day_ends(
    kafka: KafkaQuestions,
    settings: KafkaSection,
    log_ends: Mapping[Partition, int],
    *,
    until_ms: int,
    now_ms: int,
) -> dict[Partition, int]:
    """Return the offset after the day's last record, of the partitions where that is sure.

    Args:
        log_ends: of each partition, the offset after its last record.
        until_ms: epoch ms, the end of the day.
    """
    if until_ms + LATE_MS >= now_ms:
        return {}
    found = kafka.at_time(log_ends, until_ms + LATE_MS)
    later = {one: at for one, at in found.items() if 0 <= at < log_ends[one]}
    try:
        with RecordReader(settings) as reader:
            return {
                one: at
                for one, at in later.items()
                if _is_over(_times(reader, one, at, log_ends[one]), until_ms, now_ms)
            }
    except KafkaUnavailable as error:
        # The staging reads the records, meets the same fault, and explains it better.
        log.warning("audit.day_end_unread", reason=str(error))
        return {}


def looked_at(first: int, end: int) -> Iterator[int]:
    """Yield the offsets that are looked at: from the first on, each twice as far away.

    >>> list(looked_at(10, 20))
    [10, 11, 12, 14, 18]
    """
    yield first
    step = 1
    while first + step < end:
        yield first + step
        step *= 2


def _is_over(times: Iterable[int | None], until_ms: int, now_ms: int) -> bool:
    """Say whether the day is over at the first of these times.

    Args:
        times: epoch ms; None where no record stands any more.
    """
    first, *others = times
    if first is None or not until_ms <= first <= now_ms:
        return False
    # A time to come is that of a wrong clock, and says nothing; nor does no time at all.
    return all(time is None or time > now_ms or time >= until_ms for time in others)


def _times(reader: RecordReader, one: Partition, first: int, end: int) -> Iterator[int | None]:
    for offset in looked_at(first, end):
        found = reader.read(*one, offset, timeout_s=READ_LIMIT_S)
        # None is a mark of a transaction, or was compacted.
        yield None if found is None else found.timestamp_ms


_DAY_MS = 86_400_000
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}\Z")


@dataclass(frozen=True, slots=True)
class Window:
    """A half-open span of record timestamps, and the date its files are named by.

    Args:
        since_ms: epoch ms, the first that belongs to it.
        until_ms: epoch ms, the first that does not.
    """

    date: str
    since_ms: int
    until_ms: int


def window_of(
    date: str, since: str | None = None, until: str | None = None, *, now_ms: int
) -> Window:
    """Return one UTC day, or the part of it or around it that `since` and `until` name.

    A day that is not over yet is judged as far as it goes.

    Args:
        since: ISO 8601 with its zone, in place of the day's begin.
        until: likewise, in place of the day's end.

    Raises:
        SettingsError: a text is no date or no time with a zone, or the window is empty.
        NotAvailable: it begins in the future.
    """
    begin_ms = _begin_of(date)
    since_ms = begin_ms if since is None else _moment("since", since)
    until_ms = begin_ms + _DAY_MS if until is None else _moment("until", until)
    if since_ms < 0:
        # Kafka reads a negative time as a word of its own: the log's end, or its begin.
        raise SettingsError(f"the window begins before 1970 ({date}): correct the date")
    if since_ms >= until_ms:
        raise SettingsError("the window is empty: --since must be before --until")
    if since_ms > now_ms or begin_ms > now_ms:
        raise NotAvailable(f"{date} is in the future: there is nothing to judge yet")
    return Window(date, since_ms, until_ms)


def _begin_of(date: str) -> int:
    try:
        if not _DATE.match(date):
            raise ValueError
        return _ms(datetime.fromisoformat(date).replace(tzinfo=UTC))
    except ValueError:
        raise SettingsError(f"{date!r} is no date: write it as YYYY-MM-DD") from None


def _moment(name: str, text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise SettingsError(
            f"--{name} {text!r} is no time with a zone: write it as 2026-01-31T09:00:00Z"
        )
    return _ms(moment)


def _ms(moment: datetime) -> int:
    # In whole numbers: a float of this size is off by fractions of a millisecond.
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since_epoch.days * 86_400 + since_epoch.seconds) * 1000 + (
        since_epoch.microseconds // 1000
    )
