"""A broker that is away at each call of a member, whatever library that stands on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from feedback.errors import KafkaUnavailable
from feedback.kafka.errors import KafkaFault
from feedback.kafka.member import ANSWER_S
from feedback.settings.settings import KafkaSection
from tests.eventually import eventually
from tests.feedback.kafka.engines.grounds import Ground
from tests.feedback.kafka.engines.members import LIMIT_S, Told
from tests.rounds import in_time

pytestmark = pytest.mark.waits

# Beyond the time that an answer may take: a slow machine's.
SLACK_S = 15.0


@pytest.fixture
def told(mortal_settings: KafkaSection, name: str) -> Iterator[Told]:
    """Yield a member that has the topic's partition."""
    made = Told(mortal_settings, name)
    made.join(1)
    yield made
    made.close()


def _fails(call: object) -> None:
    with pytest.raises(KafkaFault):
        call()  # type: ignore[operator]


def test_each_call_ends_in_time_and_says_so(mortal: Ground, told: Told, name: str) -> None:
    place, began_s = (name, 0), time.monotonic()
    with mortal.down():
        eventually(lambda: not told.poll() and not told.member.is_coordinated(), timeout_s=LIMIT_S)
        # The group's state is told once a second, the failed connections by themselves.
        eventually(lambda: not told.poll() and told.member.why_away(since_s=began_s).reason)
        assert told.member.why_away(since_s=began_s).fault is None
        in_time(lambda: _fails(lambda: told.member.commit({place: 0})), limit_s=ANSWER_S + SLACK_S)
        in_time(lambda: _fails(lambda: told.member.committed([place])), limit_s=ANSWER_S + SLACK_S)
        in_time(lambda: _fails(told.member.topics), limit_s=ANSWER_S + SLACK_S)
        told.member.pause([place])
        told.member.resume([place])
        told.member.seek({place: 0})
        assert told.poll() == []
    mortal.write(name, [b"after"])
    assert [one.value for one in told.read(1, after_outage=True)] == [b"after"]
    eventually(lambda: told.poll() == [] and told.member.is_coordinated(), timeout_s=LIMIT_S)
    told.member.commit({place: 1})
    assert told.member.committed([place]) == {place: 1}


def test_leaving_a_group_that_is_away_ends_in_time(mortal: Ground, told: Told) -> None:
    with mortal.down():
        eventually(lambda: not told.poll() and not told.member.is_coordinated(), timeout_s=LIMIT_S)
        in_time(told.close, limit_s=ANSWER_S + SLACK_S)


def test_a_broker_that_never_was_there_is_said_in_time(nobody: KafkaSection) -> None:
    def make() -> None:
        with pytest.raises(KafkaUnavailable, match=r"REFUSED|refused"):
            Told(nobody, "t")

    in_time(make, limit_s=ANSWER_S + SLACK_S)
