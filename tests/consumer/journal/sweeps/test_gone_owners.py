"""Which workers' claims a look for those of the dead leaves out."""

from consumer.journal.pacing import pause_after_look_s
from consumer.journal.sweeps.gone_owners import REMEMBERED, SETTLED_AFTER_S, GoneOwners

SLOW_S = 10.0


def _look(
    gone: GoneOwners,
    at_s: float,
    *,
    living: str = "",
    registered: str = "",
    found: str = "",
    is_complete: bool = True,
    took_s: float = 0.0,
) -> list[str]:
    left_out = gone.begin(living, living + registered, at_s)
    gone.ended(at_s, at_s + took_s)
    gone.found(set(found), at_s, is_complete=is_complete)
    return left_out


def test_a_worker_of_which_nothing_was_found_for_a_while_is_left_out() -> None:
    gone = GoneOwners()
    assert _look(gone, 0.0, living="ab", registered="c", took_s=SLOW_S) == []
    assert _look(gone, 20.0, living="a", registered="c") == []
    assert _look(gone, SETTLED_AFTER_S, living="a") == ["c"]
    assert _look(gone, 20.0 + SETTLED_AFTER_S, living="a") == ["c", "b"]


def test_one_that_lives_again_or_of_which_something_may_be_left_is_not() -> None:
    gone = GoneOwners()
    _look(gone, 0.0, registered="abc", took_s=SLOW_S)
    assert _look(gone, 100.0, living="a", found="b") == ["b", "c"]
    assert _look(gone, 101.0) == ["c"]
    _look(gone, 102.0, is_complete=False)
    assert _look(gone, 103.0) == []


def test_none_is_left_out_while_looks_are_quick_and_once_in_a_while() -> None:
    gone = GoneOwners()
    assert [_look(gone, at_s, registered="a", took_s=0.01) for at_s in (0.0, 100.0)] == [[], []]
    _look(gone, 200.0, took_s=SLOW_S)
    again_s = 200.0 + SLOW_S + pause_after_look_s(SLOW_S)
    assert [_look(gone, at_s) for at_s in (again_s - 1, again_s)] == [["a"], []]


def test_no_more_are_remembered_than_fit() -> None:
    gone = GoneOwners()
    names = [f"worker-{number}" for number in range(REMEMBERED + 5)]
    gone.begin([], names, 0.0)
    gone.ended(0.0, SLOW_S)
    gone.found((), 0.0, is_complete=True)
    assert len(gone.begin([], [], 100.0)) == REMEMBERED
