"""How far a source has read on, also where no record stands."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

from feedback.kafka.source import KafkaSource
from feedback.kafka.values import ReadOn
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, POLL_S

MakeTopic = Callable[..., str]


def test_a_source_says_what_it_passed_over_behind_the_last_record(
    settings: KafkaSection, topic: MakeTopic, ground: Ground
) -> None:
    name = topic(1)
    place = (name, 0)
    with ground.transactions() as foreign:
        foreign.write(name, b"there")
        foreign.commit()
        foreign.write(name, b"never was")
        foreign.abort()

    def reads_to(source: KafkaSource, read_on: ReadOn) -> None:
        def is_there() -> bool:
            source.poll(POLL_S, max_records=9)
            return source.read_on.get(place) == read_on

        eventually(is_there, timeout_s=LIMIT_S)

    with closing(KafkaSource(settings, [name])) as source:
        # The record and its mark, the aborted one and its mark.
        reads_to(source, ReadOn(1, 4))
        source.commit({place: 1})
    with closing(KafkaSource(settings, [name])) as source:
        reads_to(source, ReadOn(None, 4))
        source.rewind({place: 0})
        # It is read again.
        reads_to(source, ReadOn(1, 4))
