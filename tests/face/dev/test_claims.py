"""Locks of sessions: two never hold one, and none is left behind."""

from __future__ import annotations

import fcntl
import os
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from onceward.dev.claims import AnotherSession, held_lock


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "dev.lock"


def test_a_lock_ends_with_its_holder_and_leaves_no_file(path: Path) -> None:
    with held_lock(path, subject="it"):
        named = f"pid {os.getpid()} in .* has it"
        with pytest.raises(AnotherSession, match=named), held_lock(path, subject="it"):
            pass
        assert path.exists()
    assert not path.exists()


def test_of_those_that_share_one_the_last_removes_the_file(path: Path) -> None:
    with held_lock(path, subject="it", shared=True):
        with held_lock(path, subject="it", shared=True):
            pass
        assert path.exists()
        with pytest.raises(AnotherSession), held_lock(path, subject="it"):
            pass
    assert not path.exists()


def test_who_opened_the_file_before_it_was_removed_takes_the_next_one(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = ExitStack()
    first.enter_context(held_lock(path, subject="it"))
    lock = fcntl.flock
    opened: list[int] = []

    def end_the_first(file: int, how: int) -> None:
        if not opened:
            opened.append(os.fstat(file).st_ino)
            first.close()
        lock(file, how)

    monkeypatch.setattr(fcntl, "flock", end_the_first)
    with held_lock(path, subject="it"):
        assert opened
        monkeypatch.undo()
        # It holds the file that others find.
        with pytest.raises(AnotherSession), held_lock(path, subject="it"):
            pass
    assert not path.exists()


def test_whoever_removes_the_file_by_hand_loses_nothing_of_another_one(path: Path) -> None:
    with held_lock(path, subject="it"):
        path.unlink()
        with held_lock(path, subject="it"):
            pass
        path.write_text("another one's")
    assert path.read_text() == "another one's"


def test_of_many_that_come_and_go_at_once_never_two_hold_it(path: Path) -> None:
    inside: list[None] = []
    most: list[int] = []
    held: list[None] = []

    def come_and_go() -> None:
        for _ in range(200):
            try:
                with held_lock(path, subject="it"):
                    inside.append(None)
                    most.append(len(inside))
                    held.append(None)
                    inside.pop()
            except AnotherSession:
                continue

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert held
    assert set(most) == {1}
    assert not path.exists()
