"""When what could not be written is tried again, and that it is told once."""

from __future__ import annotations

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.features.outgoing.blocked_topics import FIRST_PAUSE_S, LONGEST_PAUSE_S, BlockedTopics
from feedback.logs import event_of


def events(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str]]:
    return [
        (event_of(one), one.onceward_fields["topic"])  # type: ignore[attr-defined]
        for one in caplog.records
    ]


def passage(it: BlockedTopics, now_s: float, *closed: str, refused: str = "") -> bool:
    """Go through what waits once; return whether everything was tried again."""
    begins = it.begins(now_s)
    for topic in closed:
        if it.is_open(topic):
            it.closed(topic, "away")
    if refused:
        it.refused(refused, "too large")
    it.ends(now_s, waiting=())
    return begins


def test_while_nothing_is_in_the_way_every_look_begins_anew() -> None:
    it = BlockedTopics("dead_letters")
    assert [passage(it, now_s) for now_s in (1.0, 1.0, 1.1)] == [True] * 3
    assert not it.is_hindered


def test_a_topic_that_is_away_is_tried_again_with_the_next_passage_and_no_sooner() -> None:
    it = BlockedTopics("dead_letters")
    passage(it, 10.0, "a")
    assert (it.is_open("a"), it.is_open("b")) == (False, True)
    assert not it.begins(10.0 + FIRST_PAUSE_S - 0.01)
    assert not it.is_open("a")
    assert it.begins(10.0 + FIRST_PAUSE_S)
    assert it.is_open("a")


def test_a_topic_that_refuses_one_record_may_take_others() -> None:
    it = BlockedTopics("dead_letters")
    passage(it, 10.0, refused="a")
    assert it.is_open("a") and it.is_hindered
    assert not it.begins(10.5)


def test_an_alarm_is_told_once_and_once_when_it_is_over(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    it = BlockedTopics("dead_letters")
    now_s = 10.0
    for _ in range(5):
        assert passage(it, now_s, "a", refused="b")
        now_s = it.again_s
    passage(it, now_s, "a")
    passage(it, it.again_s)
    passage(it, it.again_s)
    assert events(caplog) == [
        ("dead_letters.hindered", "a"),
        ("dead_letters.hindered", "b"),
        ("dead_letters.free", "b"),
        ("dead_letters.free", "a"),
    ]
    assert not it.is_hindered


def test_what_was_not_tried_is_not_said_to_be_free(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    it = BlockedTopics("dead_letters")
    passage(it, 10.0, "a")
    it.begins(it.again_s)
    it.ends(it.again_s, waiting={"a"})  # it is another worker's turn
    assert events(caplog) == [("dead_letters.hindered", "a")]
    it.ends(it.again_s, waiting=())
    assert events(caplog)[1:] == [("dead_letters.free", "a")]


def test_a_look_between_two_passages_does_not_put_the_next_one_off() -> None:
    it = BlockedTopics("dead_letters")
    passage(it, 10.0, "a")
    again_s = it.again_s
    for now_s in (10.1, 10.2, 10.3):
        passage(it, now_s, "b")
    assert it.again_s == again_s


@given(st.integers(1, 40))
def test_the_pause_grows_while_passages_fail_up_to_its_longest(times: int) -> None:
    it = BlockedTopics("dead_letters")
    now_s, pauses = 100.0, []
    for _ in range(times):
        passage(it, now_s, "a")
        pauses.append(it.again_s - now_s)
        now_s = it.again_s
    wanted = [min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**n) for n in range(times)]
    assert pauses == pytest.approx(wanted)
    passage(it, now_s)
    passage(it, now_s, "a")
    assert it.again_s - now_s == pytest.approx(FIRST_PAUSE_S)
