"""Single tests find the servers of a running stack, and those of an ended one no more."""

from pathlib import Path

import pytest

from tests.stack import Servers
from tests.stack.running import announced, running_settings

FIRST, SECOND = Servers(kafka="127.0.0.1:1"), Servers(kafka="127.0.0.1:2")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give the test a cache of its own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_a_stack_is_found_while_it_runs() -> None:
    assert running_settings() == {}
    with announced(FIRST):
        assert running_settings() == FIRST.settings()
    assert running_settings() == {}


def test_of_two_stacks_the_first_is_found() -> None:
    with announced(FIRST):
        with announced(SECOND):
            assert running_settings() == FIRST.settings()
        assert running_settings() == FIRST.settings()
