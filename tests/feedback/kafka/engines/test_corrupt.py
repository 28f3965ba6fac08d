"""What is read where a batch is corrupt on a broker's disk, whatever library reads it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.reader import RecordReader
from feedback.kafka.scan import KafkaScan, OffsetSpan
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.corrupt_log import (
    HOW,
    SILENT,
    TOLD,
    WHERE,
    CorruptLog,
    cases,
    read_past,
)
from tests.feedback.kafka.engines.members import LIMIT_S
from tests.stack.restartable import Restartable

# Longer than an answer takes.
SHORT_S = 2.0


@pytest.mark.parametrize(
    ("kind", "how", "where"),
    cases(TOLD, ("plain", "bytes", "first"), ("transactions", "bytes", "last")),
)
def test_a_member_names_it_and_goes_on_there_once_it_can_be_read(
    mortal_broker: Restartable, mortal_settings: KafkaSection, kind: str, how: str, where: str
) -> None:
    log = CorruptLog(mortal_broker, f"topic-{mortal_settings.group}", kind)
    read_past(log, mortal_settings, how, where)


# With either client kafka-python reads without a group.
@pytest.mark.parametrize("engine", ["confluent"])
@pytest.mark.parametrize(
    ("kind", "how", "where"),
    cases(TOLD | SILENT, ("plain", "bytes", "last"), ("transactions", "long", "last")),
)
def test_no_reader_says_of_a_record_that_it_is_gone(
    mortal_broker: Restartable, mortal_settings: KafkaSection, kind: str, how: str, where: str
) -> None:
    log = CorruptLog(mortal_broker, f"topic-{mortal_settings.group}", kind)
    place, first_corrupt = (log.topic, 0), log.offsets[WHERE[where]]
    with RecordReader(mortal_settings) as reader, log.corrupt(WHERE[where], HOW[how]):
        for offset in log.offsets:
            try:
                found = reader.read(*place, offset, timeout_s=SHORT_S)
            except KafkaUnavailable:
                # Behind a length that is corrupt the broker finds nothing either.
                assert offset >= first_corrupt
            else:
                assert found is not None and found.value == log.value(offset)
                assert offset != first_corrupt
        with pytest.raises(KafkaUnavailable):
            reader.read_many(*place, log.offsets, timeout_s=SHORT_S)
    with RecordReader(mortal_settings) as reader:
        assert None not in reader.read_many(*place, log.offsets, timeout_s=LIMIT_S).values()


@pytest.mark.parametrize("engine", ["confluent"])
@pytest.mark.parametrize(
    ("kind", "how", "where"), cases(TOLD | SILENT, ("transactions", "bytes", "middle"))
)
def test_a_scan_fails_and_skips_nothing(
    mortal_broker: Restartable, mortal_settings: KafkaSection, kind: str, how: str, where: str
) -> None:
    log = CorruptLog(mortal_broker, f"topic-{mortal_settings.group}", kind)
    spans = {(log.topic, 0): OffsetSpan(0, log.offsets[-1] + 1)}

    def scanned(timeout_s: float) -> Iterator[int]:
        with KafkaScan(mortal_settings, timeout_s=timeout_s) as scan:
            for page in scan.pages(spans):
                yield from (one.offset for one in page.records)

    found: list[int] = []
    with log.corrupt(WHERE[where], HOW[how]), pytest.raises(KafkaUnavailable):
        for offset in scanned(SHORT_S):
            found.append(offset)
    assert found == log.offsets[: len(found)]
    assert list(scanned(LIMIT_S)) == log.offsets
