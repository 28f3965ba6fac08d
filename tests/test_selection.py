"""Of two tests that differ in their database alone, `make test` runs one, and always the same."""

import pytest

from tests.selection import KINDS, repeats


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
