"""Of two tests that differ in their database `make test` runs one; each worker has a fair part."""

from itertools import pairwise

import pytest

from tests.selection import KINDS, dealt, repeats


def _pair(name: str) -> set[str]:
    return {f"tests/a.py::{name}[{kind}-x]" for kind in KINDS}


@pytest.mark.parametrize("number", range(8))
def test_of_each_pair_exactly_one_is_the_repetition(number: int) -> None:
    pair = _pair(f"test_{number}")
    assert sum(repeats(one, pair) for one in pair) == 1


def test_both_databases_have_their_part() -> None:
    pairs = [_pair(f"test_{number}") for number in range(40)]
    first = [one for pair in pairs for one in pair if not repeats(one, pair)]
    assert 10 < sum("sqlite" in one for one in first) < 30


def test_one_that_has_one_database_is_no_repetition() -> None:
    alone = "tests/a.py::test_b[sqlite]"
    assert not repeats(alone, {alone})


def test_tests_of_a_file_that_share_a_worker_run_on_the_same_database() -> None:
    tests = [f"tests/test_{file}.py::test_{at}" for file in range(9) for at in range(9)]
    pairs = {f"{test}[{kind}]" for test in tests for kind in KINDS}
    first = {one for one in pairs if not repeats(one, pairs, by_file=True)}
    assert sorted(one.partition("[")[0] for one in first) == sorted(tests)
    kinds = {(one.partition("::")[0], one.partition("[")[2]) for one in first}
    assert len(kinds) == 9 and {kind for _, kind in kinds} == {"sqlite]", "postgres]"}


@pytest.mark.parametrize("hands", [1, 2, 3, 4, 9])
def test_each_part_has_its_share_in_the_order_of_all_and_no_test_is_lost(hands: int) -> None:
    files = [[(number, test) for test in range(1 + number % 3)] for number in range(40)]
    given = dealt(files, hands=hands)
    assert sorted(given) == [one for file in files for one in file]
    ends = [0, *(at for at in range(1, len(given)) if given[at] < given[at - 1]), len(given)]
    parts = [end - begin for begin, end in pairwise(ends)]
    assert len(parts) == hands
    assert max(parts) - min(parts) < 3
    # A file is not torn: what its tests share is made once.
    firsts = [one for at, one in enumerate(given) if at == 0 or given[at - 1][0] != one[0]]
    assert len(firsts) == len(files)


def test_files_that_share_a_costly_server_come_first_in_one_part() -> None:
    files = [[(number, test) for test in range(3)] for number in range(12)]
    none, broker, spark = frozenset[str](), frozenset({"broker"}), frozenset({"spark"})
    costs = [none, none, spark, broker] * 3
    given = dealt(files, hands=3, costs=costs)
    assert sorted(given) == [one for file in files for one in file]
    assert given[:9] == [*files[3], *files[7], *files[11]]
    # They count: a part has further files when the other parts have as many tests.
    assert given[9:12] == files[5]
    assert given[12:21] == [*files[2], *files[6], *files[10]]
    # One hand has all of them.
    assert dealt(files, hands=1, costs=costs)[:18] == [
        one for number in (2, 3, 6, 7, 10, 11) for one in files[number]
    ]


def test_a_file_with_two_costs_is_in_one_part() -> None:
    files = [["a"], ["b"], ["c"]]
    costs = [frozenset({"broker", "spark"}), frozenset({"spark"}), frozenset({"broker"})]
    assert dealt(files, hands=2, costs=costs) == ["a", "c", "b"]
