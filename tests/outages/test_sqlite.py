"""The SQLite journal fails under load: locked by a stranger, and on a full disk."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil
import pytest

from tests.consumer.stage import Stage
from tests.outages.conftest import MakeStage
from tests.outages.scene import scene_on

pytestmark = pytest.mark.waits

LOCKED_S = 4.0


def journal_file(stage: Stage) -> Path:
    return Path(stage.journal_url.removeprefix("sqlite:///"))


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Hold the journal's write lock, as a stranger's long transaction does."""
    with closing(sqlite3.connect(file, isolation_level=None, timeout=30)) as stranger:
        stranger.execute("BEGIN IMMEDIATE")
        yield
        stranger.execute("ROLLBACK")


@contextmanager
def full(file: Path, pid: int) -> Iterator[None]:
    """Let the process write no file beyond the end that the journal's log has now.

    That is what a full disk is to it: SQLite cannot append, and is told so.
    """
    process = psutil.Process(pid)
    before = process.rlimit(psutil.RLIMIT_FSIZE)
    end = file.with_name(f"{file.name}-wal").stat().st_size
    process.rlimit(psutil.RLIMIT_FSIZE, (end, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        process.rlimit(psutil.RLIMIT_FSIZE, before)


def test_a_locked_journal_is_waited_for(make_stage: MakeStage) -> None:
    stage = make_stage(journal={"timeout_s": 2})
    with scene_on(stage) as scene:
        with locked(journal_file(stage)):
            scene.logs("journal.away")
            scene.load.await_sent(int(LOCKED_S * 15))
        scene.resumes()
        scene.logs("journal.back")
    scene.all_succeeded()


def test_work_goes_on_when_a_full_disk_has_room_again(make_stage: MakeStage) -> None:
    stage = make_stage()
    with scene_on(stage) as scene:
        with full(journal_file(stage), scene.worker.pid):
            scene.logs("journal.away")
            scene.load.await_sent(60)
        scene.resumes()
        scene.logs("journal.back")
    scene.all_succeeded()
