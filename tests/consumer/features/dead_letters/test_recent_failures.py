"""What a worker remembers of its failures, and that this has a bound."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from consumer.features.outgoing.recent_runs import ENTRY_BYTES, RecentFailures
from consumer.pool.outcome import RaisedError
from feedback.clock import monotonic_s
from tests.consumer.samples import record


def test_a_failure_is_remembered_with_what_was_raised_until_it_has_its_letter() -> None:
    recent = RecentFailures()
    recent.failed(("a", 1), record(), RaisedError("E", "stack"))
    found = recent.of(("a", 1))
    assert found is not None
    assert (found.record, found.raised) == (record(), RaisedError("E", "stack"))
    assert recent.of(("a", 2)) is None
    recent.forget([("a", 1), ("b", 1)])
    assert recent.of(("a", 1)) is None


def test_a_failure_is_news() -> None:
    recent = RecentFailures()
    assert not recent.news.is_set()
    recent.failed(("a", 1), record(), None)
    assert recent.news.is_set()


def test_what_was_told_before_a_time_is_let_go_and_what_came_later_is_not() -> None:
    recent = RecentFailures()
    recent.failed(("a", 1), record(), None)
    between_s = monotonic_s()
    recent.failed(("b", 1), record(), None)
    recent.forget_before(between_s)
    assert (recent.of(("a", 1)) is None, recent.of(("b", 1)) is None) == (
        True,
        False,
    )


def test_who_writes_no_letters_remembers_nothing_and_is_told_nothing_new() -> None:
    nothing = RecentFailures(limit_bytes=0)
    nothing.failed(("a", 1), record(), None)
    assert nothing.of(("a", 1)) is None


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3000), st.booleans()), max_size=60),
    st.integers(0, 8000),
)
def test_no_more_is_remembered_than_there_is_room_for_and_the_latest_stays(
    calls: list[tuple[int, int, bool]], limit: int
) -> None:
    recent = RecentFailures(limit)
    for number, size, forgets in calls:
        name = (f"r{number}", 1)
        if forgets:
            recent.forget([name])
            continue
        recent.failed(name, record(key=None, value=b"x" * size), None)
        known = {one: recent.of((f"r{one}", 1)) for one in range(10)}
        taken = sum(one.size_bytes for one in known.values() if one is not None)
        assert taken <= limit
        assert (known[number] is not None) is (ENTRY_BYTES + size <= limit)
