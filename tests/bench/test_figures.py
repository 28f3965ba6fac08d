"""Percentiles, spreads and ratios."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.measure.figures import Spread, median_ratio, percentile, spread

NUMBERS = st.floats(min_value=0, max_value=1e6)


@given(st.lists(NUMBERS, min_size=1), st.floats(min_value=0.1, max_value=100))
def test_a_percentile_is_a_value_that_so_many_do_not_exceed(
    values: list[float], percent: float
) -> None:
    found = percentile(values, percent)
    assert found in values
    assert sum(value <= found for value in values) >= len(values) * percent / 100


def test_the_99th_of_a_hundred_is_the_last_but_one() -> None:
    assert percentile([float(n) for n in range(1, 101)], 99) == 99.0


@pytest.mark.parametrize(("values", "percent"), [([], 50), ([1.0], 0), ([1.0], 101)])
def test_there_is_no_percentile_of_nothing_or_outside_of_all(
    values: list[float], percent: float
) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile(values, percent)


def test_a_spread_leaves_out_what_was_not_measured() -> None:
    assert spread([5.0, None, 1.0, 2.0]) == Spread(median=2.0, low=1.0, high=5.0)
    assert spread([None]) is None


def test_a_ratio_compares_only_what_has_both_sides() -> None:
    assert median_ratio([(8.0, 2.0), (6.0, None), (None, 3.0), (9.0, 1.0)]) == 6.5
    assert median_ratio([(1.0, None)]) is None
