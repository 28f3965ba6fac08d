"""Which topics are read, and whose letters in them, on the real broker."""

import uuid
from collections.abc import Callable

import pytest

from consumer.dlq.letter import Dialect
from consumer.dlq.letter_reader import CLOCKS_APART_MS, LetterReader
from feedback.errors import NotAvailable
from feedback.settings.settings import KafkaSection
from tests.consumer.dlq.letters import SAMPLES_AGE_MS, of_group, write
from tests.consumer.dlq.samples import FAILED_AT, record
from tests.stack import Servers

MakeTopic = Callable[..., str]


@pytest.fixture
def kafka(servers: Servers, group: str) -> KafkaSection:
    return KafkaSection(bootstrap_servers=servers.kafka, group=group)


def ids(reader: LetterReader, *, since_ms: int | None = None) -> list[str]:
    with reader:
        spans = reader.spans(since_ms=since_ms)
        return sorted(one.request_id for page in reader.pages(spans) for one in page.letters)


def test_all_dead_letter_topics_of_the_group_are_read_or_those_that_are_named(
    kafka: KafkaSection, topic: MakeTopic, group: str
) -> None:
    first, second = f"a-{group}", f"b-{group}"
    for source in (first, second, "unrelated"):
        owner = group if source != "unrelated" else uuid.uuid4().hex
        name = topic(1, name=f"{source}.{owner}.dlq")
        write(kafka.bootstrap_servers, name, of_group(owner, f"of-{source[0]}"))
    assert ids(LetterReader(kafka)) == ["of-a", "of-b"]
    assert ids(LetterReader(kafka, topics=[second])) == ["of-b"]


def test_a_group_whose_name_is_a_part_of_anothers_sees_only_its_own(
    kafka: KafkaSection, topic: MakeTopic, group: str
) -> None:
    # The letters of the group `east.<group>` on `a` are in the same place as ours on `a.east`.
    name = topic(1, name=f"a.east.{group}.dlq")
    mixed = [*of_group(f"east.{group}", "theirs"), *of_group(group, "ours")]
    write(kafka.bootstrap_servers, name, [*mixed, record([], value=b"of nobody")])
    found = ids(LetterReader(kafka))
    assert "theirs" not in found
    assert "ours" in found and len(found) == 2


def test_a_topic_without_failures_has_no_letters_and_one_that_is_not_there_is_said(
    kafka: KafkaSection, topic: MakeTopic
) -> None:
    source = topic(1)
    assert ids(LetterReader(kafka)) == []
    assert ids(LetterReader(kafka, topics=[source])) == []
    for wrong in (LetterReader(kafka, topics=["no-topic"]), LetterReader(kafka, dlqs=["no-topic"])):
        with pytest.raises(NotAvailable, match="there is no topic no-topic"):
            ids(wrong)


def test_letters_of_a_source_that_was_deleted_can_still_be_read(
    kafka: KafkaSection, topic: MakeTopic, group: str
) -> None:
    name = topic(1, name=f"gone.{group}.dlq")
    write(kafka.bootstrap_servers, name, of_group(group, "left"))
    assert ids(LetterReader(kafka, topics=["gone"])) == ["left"]


def test_a_foreign_topic_is_read_whoever_wrote_it(kafka: KafkaSection, topic: MakeTopic) -> None:
    name = topic(1)
    said = (("__connect.errors.topic", b"orders"), ("__connect.errors.stage", b"VALUE_CONVERTER"))
    write(kafka.bootstrap_servers, name, [record(said), *of_group("another", "b")])
    with LetterReader(kafka, dlqs=[name]) as reader:
        (page,) = reader.pages(reader.spans())
    assert [one.dialect for one in page.letters] == [Dialect.CONNECT, Dialect.ONCEWARD]


def test_letters_long_before_the_time_are_not_read(
    kafka: KafkaSection, topic: MakeTopic, group: str
) -> None:
    name = topic(1, name=f"a-{group}.{group}.dlq")
    letters = of_group(group, "old", "young")
    old = letters[0].record._replace(timestamp_ms=FAILED_AT - 2 * CLOCKS_APART_MS)
    write(kafka.bootstrap_servers, name, [old, letters[1]])
    assert ids(LetterReader(kafka), since_ms=FAILED_AT + SAMPLES_AGE_MS) == ["young"]
