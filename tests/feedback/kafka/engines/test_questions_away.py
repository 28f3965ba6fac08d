"""A broker that is away at each call of a reader and of an administrator."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from functools import partial

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.administrator import NewTopic, OffsetMark
from feedback.kafka.engines import engine_of
from feedback.kafka.errors import KafkaFault
from feedback.kafka.partition_reader import ReadingPlan
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, POLL_S
from tests.rounds import in_time

pytestmark = pytest.mark.waits

LIMITED_S = 2.0
SLACK_S = 15.0
PLAN = ReadingPlan(65_536, 65_536, connect_s=LIMITED_S)


def test_each_question_ends_in_time_and_says_so(
    mortal: Ground, mortal_settings: KafkaSection, name: str, group: str
) -> None:
    place = (name, 0)
    admin = engine_of(mortal_settings).administrator(mortal_settings, LIMITED_S)
    assert admin.offsets([place], OffsetMark.END) == {place: 0}
    questions: list[Callable[[], object]] = [
        admin.cluster_id,
        admin.topics,
        lambda: admin.describe([name]),
        lambda: admin.configs([name], ["cleanup.policy"]),
        admin.groups,
        lambda: admin.offsets([place], OffsetMark.BEGIN),
        lambda: admin.offsets_at([place], 0),
        lambda: admin.group_offsets({group: [place]}),
    ]
    requests: list[Callable[[], object]] = [
        lambda: admin.make({f"{name}-2": NewTopic(1, 1)}),
        lambda: admin.delete_topics([name]),
        lambda: admin.delete_groups([group]),
    ]

    def fails(call: Callable[[], object]) -> None:
        with pytest.raises(KafkaFault):
            call()

    with mortal.down():
        for call in questions + requests:
            in_time(partial(fails, call), limit_s=2 * LIMITED_S + SLACK_S)
    for call in questions:
        eventually(partial(_answers, call), timeout_s=LIMIT_S)
    admin.close()


def _answers(call: Callable[[], object]) -> bool:
    try:
        call()
    except KafkaFault:
        return False
    return True


def test_a_reader_waits_says_why_and_goes_on(
    mortal: Ground, mortal_settings: KafkaSection, name: str
) -> None:
    place = (name, 0)
    mortal.write(name, [b"before"])
    reader = engine_of(mortal_settings).reader(mortal_settings, PLAN)
    reader.assign({place: 0})
    eventually(lambda: reader.poll(POLL_S, max_records=9), timeout_s=LIMIT_S)
    began_s = time.monotonic()
    with mortal.down():
        eventually(
            lambda: (
                reader.poll(POLL_S, max_records=9) == [] and reader.why_away(since_s=began_s).reason
            ),
            timeout_s=LIMIT_S,
        )
        reader.assign({place: 1})
        assert reader.poll(POLL_S, max_records=9) == []
        assert reader.position(place) == 1
        assert reader.why_away(since_s=began_s).fault is None
    mortal.write(name, [b"after"])
    found = eventually(lambda: reader.poll(POLL_S, max_records=9), timeout_s=LIMIT_S)
    assert [one.value for one in found] == [b"after"]
    reader.close()


def test_a_broker_that_never_was_there_is_said_in_time(nobody: KafkaSection) -> None:
    chosen = engine_of(nobody)
    for connect in (
        lambda: chosen.administrator(nobody, LIMITED_S),
        lambda: chosen.reader(nobody, PLAN),
    ):

        def make(connect: Callable[[], object] = connect) -> None:
            with pytest.raises(KafkaUnavailable, match=r"REFUSED|refused"):
                connect()

        in_time(make, limit_s=LIMITED_S + SLACK_S)


def test_a_topic_is_not_made_while_nobody_answers(
    mortal: Ground, mortal_settings: KafkaSection
) -> None:
    admin = engine_of(mortal_settings).administrator(mortal_settings, LIMITED_S)
    name = f"late-{uuid.uuid4().hex}"
    with mortal.paused(), pytest.raises(KafkaFault):
        admin.make({name: NewTopic(1, 1)})
    admin.close()
