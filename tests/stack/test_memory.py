"""Temporary files of a run lie in memory where there is room, and go with it."""

from __future__ import annotations

import os
import stat
import sys
import tempfile
from pathlib import Path

import pytest

from tests.stack.memory import SHARED, memory_folder, temporary_files_in, temporary_folder_in
from tests.stack.test_stack import run_stack

ASKS = "import tempfile; print(tempfile.gettempdir())"


@pytest.fixture(autouse=True)
def nothing_given(no_given_servers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the folder, and the servers, that this run itself was given."""
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", None)


def test_a_folder_on_a_disk_and_one_without_room_are_none(tmp_path: Path) -> None:
    assert memory_folder(tmp_path, room_bytes=0) is None
    assert memory_folder(tmp_path / "none", room_bytes=0) is None
    assert memory_folder(room_bytes=2**62) is None
    assert memory_folder() in {SHARED, None}


def test_new_temporary_files_lie_there_and_afterwards_as_before(tmp_path: Path) -> None:
    before = tempfile.gettempdir()
    with temporary_files_in(tmp_path):
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path)
    assert tempfile.gettempdir() == before
    assert "TMPDIR" not in os.environ
    with temporary_files_in(None):
        assert tempfile.gettempdir() == before


def test_a_folder_that_the_environment_names_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with temporary_files_in(SHARED):
        assert tempfile.gettempdir() == str(tmp_path)
    ended = run_stack("--lean", "--only", "redis", "--", sys.executable, "-c", ASKS)
    assert ended.stdout.strip() == str(tmp_path)


def test_anybody_may_write_there(tmp_path: Path) -> None:
    made = temporary_folder_in(tmp_path)
    assert stat.S_IMODE(made.stat().st_mode) == 0o1777


def test_the_command_of_a_lean_stack_has_a_folder_that_goes_with_the_servers() -> None:
    ended = run_stack("--lean", "--only", "redis", "--", sys.executable, "-c", ASKS)
    place = Path(ended.stdout.strip())
    assert (memory_folder() or Path(tempfile.gettempdir())) in place.parents
    assert not place.parent.exists()
