"""Spark's counts added up to a day's figures."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_audit.findings import Finding
from spark_audit.judge.figures import (
    BY_CODE,
    BY_HOUR,
    BY_OWNER,
    BY_STATE,
    FLAGS,
    Counted,
    WorkerShare,
    quantile_ms,
    tallied,
)


def _flags(*names: str) -> int:
    return sum(1 << FLAGS.index(name) for name in names)


def _by_state(state: str, requests: int, *flags: str) -> Counted:
    return Counted(BY_STATE, None, None, state, _flags(*flags), None, None, requests, 0)


def _by_hour(hour: int | None, bucket: int | None, requests: int, errors: int = 0) -> Counted:
    return Counted(BY_HOUR, hour, bucket, None, None, None, None, requests, errors)


def test_a_request_counts_for_each_of_its_findings() -> None:
    found = tallied(
        [
            _by_state("SUCCEEDED", 5),
            _by_state("SUCCEEDED", 2, "resent", "late", "resend_needed"),
            _by_state("NO_ROW", 1, "lost", "resent"),
            _by_state("NO_ROW", 3, "is_pending"),
            _by_state("CLAIMED", 4, "is_in_flight"),
        ],
        hours=24,
    )
    assert (found.requests, found.pending, found.in_flight) == (15, 3, 4)
    assert found.resends_needed == 2
    assert found.by_state == {"CLAIMED": 4, "NO_ROW": 4, "SUCCEEDED": 7}
    assert {one: count for one, count in found.findings.items() if count} == {
        Finding.LOST: 1,
        Finding.RESENT: 3,
        Finding.LATE: 2,
    }


def test_hours_without_requests_are_there_as_zeros() -> None:
    found = tallied([_by_hour(1, 140, 3, 1), _by_hour(1, None, 2), _by_hour(1, 90, 1)], hours=3)
    assert [(hour.requests, hour.errors) for hour in found.hours] == [(0, 0), (6, 1), (0, 0)]
    assert list(found.hours[1].latencies.items()) == [(90, 1), (140, 3)]


def test_what_began_outside_the_window_counts_but_in_no_hour() -> None:
    found = tallied([_by_hour(None, 140, 3, 2), _by_hour(0, 140, 1)], hours=1)
    assert (found.outside, found.errors) == (3, 2)
    assert [hour.requests for hour in found.hours] == [1]
    assert found.latencies == {140: 4}


def test_codes_and_workers_stand_in_order_whatever_order_they_came_in() -> None:
    def code(name: str, errors: int) -> Counted:
        return Counted(BY_CODE, None, None, None, None, name, None, errors + 9, errors)

    def owner(name: str, requests: int, errors: int) -> Counted:
        return Counted(BY_OWNER, None, None, None, None, None, name, requests, errors)

    rows = [code("B", 1), code("A", 1), code("C", 2), owner("y", 5, 0), owner("x", 9, 0)]
    for some in (rows, rows[::-1]):
        found = tallied([*some, owner("z", 1, 1)], hours=1)
        assert found.codes == (("C", 2), ("A", 1), ("B", 1))
        assert found.workers == (
            WorkerShare("z", 1, 1),
            WorkerShare("x", 9, 0),
            WorkerShare("y", 5, 0),
        )


def test_a_day_without_requests_has_figures() -> None:
    found = tallied([], hours=24)
    assert (found.requests, len(found.hours), found.codes) == (0, 24, ())
    assert quantile_ms(found.latencies, 0.5) is None


@given(
    st.lists(st.integers(1, 10**9), min_size=1),
    st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]),
)
def test_a_quantile_is_never_too_low_and_at_most_a_bucket_too_high(
    latencies_ms: list[int], share: float
) -> None:
    histogram: dict[int, int] = {}
    for ms in latencies_ms:
        bucket = math.floor(math.log2(ms * 1000) * 8)
        histogram[bucket] = histogram.get(bucket, 0) + 1
    exact = sorted(latencies_ms)[math.ceil(len(latencies_ms) * share) - 1]
    found = quantile_ms(histogram, share)
    assert found is not None
    # Three digits are written, so half a unit of the third is lost.
    assert exact * 0.995 <= found <= exact * 2 ** (1 / 8) * 1.005


@pytest.mark.parametrize(("share", "expected"), [(0.5, 1.12), (0.99, 1.12), (1.0, 1140.0)])
def test_a_quantile_is_the_upper_edge_of_its_bucket(share: float, expected: float) -> None:
    assert quantile_ms({80: 99, 160: 1}, share) == expected
