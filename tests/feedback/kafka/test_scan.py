"""Whole topics read once: bounded, in pages, and resumable."""

from collections.abc import Callable, Iterator

import pytest

from feedback.clock import epoch_ms
from feedback.errors import KafkaUnavailable
from feedback.kafka import scan as kafka_scan
from feedback.kafka.scan import KafkaScan, OffsetSpan, resumed
from feedback.settings.settings import KafkaSection
from tests.feedback.kafka.engines.grounds import Ground, SpreadRecord
from tests.left_open import left_open

MakeTopic = Callable[..., str]
# The broker forgets what is old.
BEGAN_MS = epoch_ms()


@pytest.fixture
def kafka(settings: KafkaSection) -> KafkaSection:
    return settings


@pytest.fixture
def scan(kafka: KafkaSection) -> Iterator[KafkaScan]:
    with KafkaScan(kafka) as made:
        yield made


def fill(ground: Ground, name: str, count: int, *, partitions: int = 1) -> None:
    ground.spread(
        name,
        (
            SpreadRecord(b"%d" % number, number % partitions, BEGAN_MS + number)
            for number in range(count)
        ),
    )


def values(scan: KafkaScan, spans: kafka_scan.OffsetSpans) -> list[int]:
    found = (one.value for page in scan.pages(spans) for one in page.records)
    return sorted(int(value) for value in found if value is not None)


def test_all_partitions_are_read_up_to_where_they_ended_at_the_beginning(
    scan: KafkaScan, ground: Ground, topic: MakeTopic
) -> None:
    name, empty = topic(3), topic(1)
    fill(ground, name, 2500, partitions=2)
    spans = scan.spans([name, empty, "no-such-topic"])
    assert spans == {
        (name, 0): OffsetSpan(0, 1250),
        (name, 1): OffsetSpan(0, 1250),
        (name, 2): OffsetSpan(0, 0),
        (empty, 0): OffsetSpan(0, 0),
    }
    assert scan.topic_ids.keys() == {name, empty}
    assert len({*scan.topic_ids.values(), ""}) == 3
    assert scan.ids_of([name, empty, f"{name}-absent"]) == scan.topic_ids
    fill(ground, name, 10)  # too late
    pages = list(scan.pages(spans))
    assert sorted(int(one.value or b"") for page in pages for one in page.records) == [*range(2500)]
    assert max(len(page.records) for page in pages) <= kafka_scan.PAGE_RECORDS
    assert (pages[-1].read, pages[-1].total) == (2500, 2500)
    assert pages[-1].positions[name, 0] == 1250


def test_a_scan_that_was_cut_off_goes_on_where_it_was(
    scan: KafkaScan, kafka: KafkaSection, ground: Ground, topic: MakeTopic
) -> None:
    name = topic(2)
    fill(ground, name, 3000, partitions=2)
    spans = scan.spans([name])
    first = next(scan.pages(spans))
    with KafkaScan(kafka) as another:
        rest = values(another, resumed(spans, first.positions))
    assert sorted([*(int(one.value or b"") for one in first.records), *rest]) == [*range(3000)]


def test_the_same_topics_can_be_read_again_from_their_beginning(
    scan: KafkaScan, ground: Ground, topic: MakeTopic
) -> None:
    name = topic(2)
    fill(ground, name, 20, partitions=2)
    for _ in range(2):
        assert values(scan, scan.spans([name])) == [*range(20)]


def test_a_scan_begins_at_a_time(scan: KafkaScan, ground: Ground, topic: MakeTopic) -> None:
    name = topic(1)
    fill(ground, name, 10)
    assert scan.spans([name], since_ms=BEGAN_MS + 7) == {(name, 0): OffsetSpan(7, 10)}
    assert scan.spans([name], since_ms=-5) == {(name, 0): OffsetSpan(0, 10)}
    late = scan.spans([name], since_ms=BEGAN_MS + 10)
    assert late == {(name, 0): OffsetSpan(10, 10)}
    assert list(scan.pages(late)) == []


def test_what_a_failed_transaction_wrote_is_left_out_unless_it_is_wanted(
    scan: KafkaScan, kafka: KafkaSection, ground: Ground, topic: MakeTopic
) -> None:
    name = topic(1)
    with ground.transactions() as foreign:
        foreign.write(name, b"1")
        foreign.commit()
        foreign.write(name, b"2")
        foreign.abort()
    assert values(scan, scan.spans([name])) == [1]
    with KafkaScan(kafka, committed_only=False) as all_of_it:
        assert values(all_of_it, all_of_it.spans([name])) == [1, 2]


def test_topics_are_named(scan: KafkaScan, topic: MakeTopic) -> None:
    name = topic(1)
    assert name in scan.topics()


def test_a_broker_that_is_away_is_said(nobody: KafkaSection) -> None:
    with left_open(), KafkaScan(nobody, timeout_s=1.0) as scan:
        with pytest.raises(KafkaUnavailable, match="Kafka at"):
            scan.topics()
        with pytest.raises(KafkaUnavailable, match="Kafka at"):
            scan.spans(["any"])


def test_a_partition_that_gives_nothing_is_not_waited_for_for_ever(
    scan: KafkaScan, kafka: KafkaSection, topic: MakeTopic
) -> None:
    name = topic(1)
    with (
        KafkaScan(kafka, timeout_s=1.0) as impatient,
        pytest.raises(KafkaUnavailable, match="has given nothing for 1 s"),
    ):
        list(impatient.pages({(name, 0): OffsetSpan(0, 5)}))


def test_a_scan_is_used_again_while_the_topic_grows(
    scan: KafkaScan, ground: Ground, topic: MakeTopic
) -> None:
    name = topic(2)
    for turn in range(1, 16):
        fill(ground, name, 200, partitions=2)
        spans = scan.spans([name])
        # What comes now is fetched with the rest, and belongs to the next reading.
        fill(ground, name, 200, partitions=2)
        assert len(values(scan, spans)) == 400 * turn - 200
