"""One alert of many events, and silence between two of a kind."""

from consumer.features.alerts.grouping import (
    GATHER_S,
    MOST_CODES,
    MOST_IDS,
    OTHER,
    AlertGrouping,
    AlertKind,
)
from tests.consumer.features.alerts.samples import event

EVERY_S = 300.0


def test_what_comes_soon_after_the_first_is_told_with_it() -> None:
    grouping = AlertGrouping(EVERY_S)
    grouping.add([event(request_id="a", detail="one")], now_s=0.0)
    grouping.add([event(requests=8, is_more=True, request_id="b", detail="two")], now_s=1.0)
    grouping.add([event(code="LOST", request_id="c", at_ms=9)], now_s=1.5)
    assert grouping.take_due(GATHER_S - 0.1) == []
    assert grouping.next_due_s == GATHER_S
    (alert,) = grouping.take_due(GATHER_S)
    assert (alert.count, alert.codes) == (10, {"BUSY": 9, "LOST": 1})
    assert (alert.request_ids, alert.detail, alert.last_at) == (["a", "b", "c"], "two", 9)
    assert grouping.take_due(9e9) == []


def test_a_topic_is_quiet_about_a_kind_for_a_while_and_then_says_what_came() -> None:
    grouping = AlertGrouping(EVERY_S)
    grouping.add([event()], now_s=0.0)
    assert len(grouping.take_due(2.0)) == 1
    grouping.add([event(code="LOST"), event(code="LATE")], now_s=3.0)
    assert grouping.take_due(2.0 + EVERY_S - 0.1) == []
    (alert,) = grouping.take_due(2.0 + EVERY_S)
    assert alert.codes == {"LOST": 1, "LATE": 1}
    grouping.add([event()], now_s=10 * EVERY_S)
    assert len(grouping.take_due(10 * EVERY_S + GATHER_S)) == 1


def test_kinds_and_topics_do_not_wait_for_each_other() -> None:
    grouping = AlertGrouping(EVERY_S)
    grouping.add([event()], now_s=0.0)
    assert len(grouping.take_due(2.0)) == 1
    grouping.add([event(AlertKind.RATE), event(topic="orders")], now_s=2.0)
    told = grouping.take_due(4.0)
    assert [(one.kind, one.topic) for one in told] == [
        (AlertKind.RATE, "payments"),
        (AlertKind.FIRST, "orders"),
    ]


def test_what_is_due_takes_along_what_came_later_but_not_what_is_to_be_quiet() -> None:
    grouping = AlertGrouping(EVERY_S)
    grouping.add([event(topic="orders")], now_s=0.0)
    assert len(grouping.take_due(2.0)) == 1
    grouping.add([event()], now_s=3.0)
    grouping.add([event(AlertKind.RATE), event(topic="orders")], now_s=4.9)
    told = grouping.take_due(5.0)
    assert [(one.kind, one.topic) for one in told] == [
        (AlertKind.FIRST, "payments"),
        (AlertKind.RATE, "payments"),
    ]
    assert grouping.next_due_s == 2.0 + EVERY_S


def test_more_of_what_nobody_is_to_be_told_of_tells_nobody() -> None:
    grouping = AlertGrouping(EVERY_S)
    grouping.add([event(is_more=True)], now_s=0.0)
    assert grouping.next_due_s is None
    grouping.add([event(code="LOST"), event(is_more=True)], now_s=0.0)
    (alert,) = grouping.take_due(2.0)
    assert alert.codes == {"LOST": 1}


def test_of_what_lasts_the_newest_counts_and_of_a_rate_the_highest() -> None:
    grouping = AlertGrouping(EVERY_S)
    for requests, level in ((5, 400.0), (3, 410.0)):
        grouping.add([event(AlertKind.AGE, "", requests=requests, level=level)], now_s=0.0)
    for level in (70.0, 90.0, 80.0):
        grouping.add([event(AlertKind.RATE, requests=10, level=level)], now_s=0.0)
    age, rate = grouping.take_due(2.0)
    assert (age.count, age.level) == (3, 410.0)
    assert (rate.count, rate.level) == (30, 90.0)


def test_what_is_held_is_bounded_whatever_comes() -> None:
    grouping = AlertGrouping(EVERY_S)
    for number in range(10_000):
        grouping.add([event(code=f"CODE_{number}", request_id=f"id-{number}")], now_s=0.0)
    (alert,) = grouping.take_due(2.0)
    assert len(alert.codes) == MOST_CODES + 1
    assert alert.codes[OTHER] == 10_000 - MOST_CODES
    assert (alert.count, len(alert.request_ids)) == (10_000, MOST_IDS)


def test_at_the_end_what_waits_is_told_also_when_it_was_to_be_quiet() -> None:
    grouping = AlertGrouping(EVERY_S)
    grouping.add([event()], now_s=0.0)
    assert len(grouping.take_due(2.0)) == 1
    grouping.add([event(code="LOST")], now_s=3.0)
    assert [one.codes for one in grouping.take_all()] == [{"LOST": 1}]
