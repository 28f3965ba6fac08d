"""Which failures are news."""

from consumer.features.alerts import alerts as module
from consumer.features.alerts.alerts import FORGOTTEN_AFTER_S, FailureBurst, FailureDetection
from consumer.features.alerts.grouping import AlertEvent, AlertKind
from tests.consumer.features.alerts.samples import NOW_MS, failure


def noticed(noticing: FailureDetection, *failures: FailureBurst, now_s: float) -> list[AlertEvent]:
    return list(noticing.events(failures, now_s=now_s, now_ms=NOW_MS))


def first(noticing: FailureDetection, *failures: FailureBurst, now_s: float) -> list[str]:
    """Return the codes that are the first of their kind."""
    events = noticed(noticing, *failures, now_s=now_s)
    return [one.code for one in events if one.kind is AlertKind.FIRST and not one.is_more]


def rates(
    noticing: FailureDetection, *failures: FailureBurst, now_s: float
) -> list[tuple[str, str, float]]:
    """Return topic, code and rate of what is too much."""
    events = noticed(noticing, *failures, now_s=now_s)
    return [(one.topic, one.code, one.level) for one in events if one.kind is AlertKind.RATE]


def test_the_first_of_a_topic_and_code_is_news_and_the_next_only_more_of_it() -> None:
    noticing = FailureDetection(0)
    assert first(noticing, failure("A"), failure("B"), now_s=0.0) == ["A", "B"]
    assert first(noticing, failure("A"), failure("C"), now_s=1.0) == ["C"]
    assert first(noticing, failure("A", topic="orders"), now_s=1.0) == ["A"]
    (event,) = noticed(noticing, failure("A", 7), now_s=2.0)
    assert (event.is_more, event.requests, event.detail) == (True, 7, "no")


def test_a_kind_that_was_not_seen_for_a_day_is_news_again() -> None:
    noticing = FailureDetection(0)
    assert first(noticing, failure("A"), now_s=0.0) == ["A"]
    almost_s = FORGOTTEN_AFTER_S - 1
    assert first(noticing, failure("A"), now_s=almost_s) == []
    # Seen again a moment ago: the day is counted from then.
    assert first(noticing, failure("A"), now_s=FORGOTTEN_AFTER_S + 1) == []
    assert first(noticing, failure("A"), now_s=2 * FORGOTTEN_AFTER_S + 1) == ["A"]


def test_a_handler_that_makes_up_codes_does_not_fill_the_memory() -> None:
    noticing = FailureDetection(0)
    for number in range(3 * module.REMEMBERED):
        noticed(noticing, failure(f"CODE_{number}"), now_s=float(number))
    assert len(noticing._seen) == module.REMEMBERED
    # The oldest are forgotten, those that are seen again and again are not.
    assert first(noticing, failure(f"CODE_{3 * module.REMEMBERED - 1}"), now_s=9e3) == []


def test_more_than_so_many_in_a_minute_are_told_with_their_number() -> None:
    noticing = FailureDetection(10)
    assert rates(noticing, failure("A", 10), now_s=0.0) == []
    assert rates(noticing, failure("A", 1), failure("B", 2), now_s=59.0) == [
        ("payments", "A", 13),
        ("payments", "B", 13),
    ]
    # The first ten are a minute old.
    assert rates(noticing, failure("A", 1), now_s=60.0) == []
    assert rates(noticing, failure("A", 7), now_s=61.0) == [("payments", "A", 11)]


def test_each_topic_has_its_own_minute() -> None:
    noticing = FailureDetection(10)
    both = [failure("A", 6), failure("A", 6, topic="orders")]
    assert rates(noticing, *both, now_s=0.0) == []
    assert rates(noticing, failure("A", 6, topic="orders"), now_s=1.0) == [("orders", "A", 12)]


def test_a_minute_of_many_calls_takes_little_memory() -> None:
    noticing = FailureDetection(10**9)
    for number in range(100_000):
        noticed(noticing, failure("A"), now_s=number / 1000)
    assert len(noticing._minutes["payments"]) <= 62


def test_with_no_limit_nothing_is_too_much() -> None:
    assert rates(FailureDetection(0), failure("A", 10**9), now_s=0.0) == []
