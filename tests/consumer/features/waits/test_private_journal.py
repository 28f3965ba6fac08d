"""The journal of a worker without one: it is gone with its worker, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from consumer.features.waits.private_journal import LOCK, PREFIX, PrivateJournal
from feedback.settings.settings import Settings
from tests.documents import ROOT

SETTINGS = Settings.model_validate({"kafka": {"group": "g", "bootstrap_servers": "127.0.0.1:1"}})
_KILLED = """
import os, signal
from tests.consumer.features.waits.test_private_journal import SETTINGS, PrivateJournal
journal = PrivateJournal(SETTINGS)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder for temporary files."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def _left_by_a_killed_one(folder: Path) -> Path:
    before = {*folder.iterdir()}
    killed = subprocess.run((sys.executable, "-c", _KILLED), cwd=ROOT, timeout=60, check=False)
    assert killed.returncode == -signal.SIGKILL
    (left,) = {*folder.iterdir()} - before
    return left


def test_the_next_worker_removes_what_a_killed_one_has_left_and_nothing_else(folder: Path) -> None:
    lives = PrivateJournal(SETTINGS)
    (kept,) = folder.iterdir()
    left = _left_by_a_killed_one(folder)
    assert (left / "journal.db").exists()
    # One that begins has no lock yet; a name of ours may be anybody's.
    ours = kept.name.rpartition("-")[0]
    assert ours.startswith(PREFIX)
    begins, foreign, stuck = (folder / f"{ours}-{name}" for name in ("begins", "foreign", "stuck"))
    begins.mkdir()
    stuck.mkdir()
    os.mkfifo(stuck / LOCK)
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / LOCK).touch()
    foreign.symlink_to(elsewhere)
    others = {kept, begins, foreign, stuck, elsewhere}

    following = PrivateJournal(SETTINGS)
    assert not left.exists()
    (own,) = {*folder.iterdir()} - others
    for journal in (following, lives):
        journal.stop(1.0)
    assert {*folder.iterdir()} == others - {kept}
    assert not own.exists()


def test_what_cannot_be_removed_keeps_no_worker_from_starting(folder: Path) -> None:
    left = _left_by_a_killed_one(folder)
    (left / "more").mkdir()
    PrivateJournal(SETTINGS).stop(1.0)
    assert (left / LOCK).exists()  # the next one tries again
    (left / "more").rmdir()
    PrivateJournal(SETTINGS).stop(1.0)
    assert [*folder.iterdir()] == []


def test_where_no_file_can_be_locked_a_worker_starts_and_nobody_removes_its_journal(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as without:
        without.setattr(fcntl, "flock", refuse)
        lives = PrivateJournal(SETTINGS)
    (own,) = folder.iterdir()
    PrivateJournal(SETTINGS).stop(1.0)
    assert (own / "journal.db").exists()
    lives.stop(1.0)
