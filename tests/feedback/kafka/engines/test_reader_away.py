"""What a reader of partitions says of a leader that is silent, whatever library it stands on."""

from __future__ import annotations

from contextlib import closing

import pytest

from feedback.kafka.engines import engine_of
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S
from tests.feedback.kafka.engines.test_reader import PLAN, read

pytestmark = pytest.mark.waits


def test_an_end_is_that_of_an_answer_since_it_was_told_to_read_there(
    mortal: Ground, mortal_settings: KafkaSection, name: str
) -> None:
    place = (name, 0)
    mortal.write(name, [b"0", b"1"])
    with closing(engine_of(mortal_settings).reader(mortal_settings, PLAN)) as reader:
        reader.assign({place: 0})
        assert [one.value for one in read(reader, 2)] == [b"0", b"1"]
        assert reader.end(place) == 2
        mortal.write(name, [b"2"])
        with mortal.paused():
            reader.assign({place: 2})
            assert reader.poll(0, max_records=1) == []
            # The one from before says that there is no such record.
            assert reader.end(place) is None
        assert [one.value for one in read(reader, 1)] == [b"2"]
        # As often as it is told to read from the end, it hears of that.
        for _ in range(2):
            reader.assign({place: 3})
            assert reader.end(place) is None
            eventually(
                lambda: reader.poll(0.05, max_records=1) == [] and reader.end(place) == 3,
                timeout_s=LIMIT_S,
            )
