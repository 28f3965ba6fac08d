"""Leases that end later than they can: over once nobody renewed them for a lease."""

import pytest

from consumer.journal import FarLease
from consumer.loop.recovery.far_leases import FarLeases

pytestmark = pytest.mark.waits

DEAD, LIVES = FarLease("dead", 10_000), FarLease("lives", 10_000)


def test_a_lease_that_stays_far_ahead_for_a_whole_lease_is_over() -> None:
    seen = FarLeases(lease_s=5)
    assert seen.over([DEAD], 100.0) == []
    assert seen.over([DEAD], 104.9) == []
    assert seen.over([DEAD], 105.0) == [DEAD]


def test_a_lease_that_is_renewed_or_was_out_of_sight_begins_anew() -> None:
    seen = FarLeases(lease_s=5)
    seen.over([DEAD, LIVES], 100.0)
    assert seen.over([DEAD, LIVES._replace(lease_until=11_000)], 105.0) == [DEAD]
    assert seen.over([], 106.0) == []
    assert seen.over([DEAD], 107.0) == []
