"""Children that cannot start, and when they are tried again."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.pool import ChildDied, ChildFailed, ChildReady, respawn_policy
from consumer.pool.respawn_policy import AT_ONCE, DELAY_S
from feedback.doubling import doubled
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import LIMIT_S, Driven, job

pytestmark = pytest.mark.waits

GOOD = "from consumer import handler\n@handler(topic='noop')\ndef noop(request): ...\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder that children import from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def _failures(driven: Driven, count: int) -> list[ChildFailed]:
    driven.until(lambda: len(driven.told(ChildFailed)) >= count)
    return driven.told(ChildFailed)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("import not_there_at_all", "No module named 'not_there_at_all'"),
        ("def broken(:", "SyntaxError"),
        ("raise ValueError('no\\nlicence')", "ValueError: no licence"),
        ("", "no function there has @handler"),
    ],
)
def test_a_module_that_cannot_be_imported_fails_the_child_with_one_line(
    make_pool: MakePool, folder: Path, text: str, reason: str
) -> None:
    (folder / "faulty_handlers.py").write_text(text)
    driven = make_pool(is_awaited=False, handlers=("faulty_handlers",))
    failed = _failures(driven, 1)[0]
    assert reason in failed.reason
    assert "\n" not in failed.reason
    assert failed.pid > 0


def test_a_child_that_ends_during_its_import_fails_with_its_exit(
    make_pool: MakePool, folder: Path
) -> None:
    (folder / "leaving_handlers.py").write_text("import os; os._exit(9)")
    driven = make_pool(is_awaited=False, handlers=("leaving_handlers",))
    assert _failures(driven, 1)[0].reason == "exited with code 9 before it was ready"
    assert driven.told(ChildDied) == []


def test_a_child_that_is_not_ready_in_time_is_killed(make_pool: MakePool, folder: Path) -> None:
    os.mkfifo(folder / "never")
    text = f"import pathlib; pathlib.Path({str(folder / 'never')!r}).read_text()"
    (folder / "slow_handlers.py").write_text(text)
    driven = make_pool(is_awaited=False, handlers=("slow_handlers",), start_timeout_s=0.5)
    assert _failures(driven, 1)[0].reason == "not ready within 0.5 s"


def test_a_child_that_waits_for_a_processor_is_not_late(make_pool: MakePool, folder: Path) -> None:
    """Killed and started again, it would never be ready on a host that is too busy."""
    processor = min(os.sched_getaffinity(0))
    here = f"import os, time\nos.sched_setaffinity(0, {{{processor}}})\n"
    (folder / "starved_handlers.py").write_text(
        f"{here}while time.process_time() < 0.6: pass\n{GOOD}"
    )
    # It gets a fifth of a processor: beside 0.6 s of work, 0.9 s are left for all else.
    limit_s = 1.5
    rivals = [subprocess.Popen((sys.executable, "-c", f"{here}while True: pass")) for _ in range(4)]
    try:
        driven = make_pool(
            is_awaited=False, handlers=("starved_handlers",), start_timeout_s=limit_s
        )
        begun_s = time.monotonic()
        driven.until(lambda: [*driven.told(ChildReady), *driven.told(ChildFailed)])
    finally:
        for one in rivals:
            one.kill()
            one.wait()
    assert driven.told(ChildFailed) == []
    assert time.monotonic() - begun_s > limit_s


@pytest.mark.parametrize("slow_after_s", [0.0, 600.0])
def test_no_more_children_start_at_once_than_there_are_processors(
    make_pool: MakePool, folder: Path, monkeypatch: pytest.MonkeyPatch, slow_after_s: float
) -> None:
    """Eight that started together on a busy machine were each too late, round after round."""
    monkeypatch.setattr(respawn_policy, "SLOW_AFTER_S", slow_after_s)
    os.mkfifo(folder / "gate")
    text = f"import os; open(f'{folder}/begun-{{os.getpid()}}', 'w'); open('{folder}/gate')\n"
    (folder / "waiting_handlers.py").write_text(text + GOOD)
    at_first = AT_ONCE if slow_after_s else AT_ONCE + 2
    driven = make_pool(
        is_awaited=False, handlers=("waiting_handlers",), processes=AT_ONCE + 2, spare_processes=1
    )
    driven.until(lambda: len([*folder.glob("begun-*")]) == at_first)
    assert driven.children == at_first
    with (folder / "gate").open("wb"):
        driven.pids(AT_ONCE + 3)


def test_failed_children_are_tried_again_with_pauses_until_one_is_ready(
    make_pool: MakePool, folder: Path
) -> None:
    module = folder / "late_handlers.py"
    module.write_text("raise RuntimeError")
    begun_s = time.monotonic()
    driven = make_pool(is_awaited=False, handlers=("late_handlers",))
    _failures(driven, 3)
    assert time.monotonic() - begun_s > sum(doubled(*DELAY_S, n) for n in (1, 2))
    module.write_text(GOOD)
    driven.until(lambda: driven.told(ChildReady))
    assert driven.pool.free_slots == 1


def test_a_process_that_the_system_refuses_is_told_and_tried_again(make_pool: MakePool) -> None:
    driven = make_pool()
    with _no_files_left():
        os.kill(driven.pids(1)[0], signal.SIGKILL)
        failed = _failures(driven, 2)[0]
    assert failed == ChildFailed(0, "could not be started: Too many open files")
    driven.pids(2)
    assert driven.pool.free_slots == 1


@contextmanager
def _no_files_left() -> Iterator[None]:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(one.name) for one in Path("/proc/self/fd").iterdir())
    taken = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 1, limits[1]))
    try:
        with suppress(OSError):
            while True:
                taken.append(os.dup(2))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for fd in taken:
            os.close(fd)


@given(st.integers(min_value=0, max_value=10**6))
def test_pauses_grow_and_stay_below_five_seconds(failures: int) -> None:
    delay_s = doubled(*DELAY_S, failures)
    assert 0 <= delay_s <= doubled(*DELAY_S, failures + 1) <= 5.0


def test_the_first_pauses_are_a_tenth_of_a_second_doubling() -> None:
    assert [doubled(*DELAY_S, n) for n in range(5)] == [0.0, 0.1, 0.2, 0.4, 0.8]


def test_five_failed_starts_in_a_row_break_the_pool_and_the_reason_is_the_last(
    make_pool: MakePool, folder: Path
) -> None:
    (folder / "broken_handlers.py").write_text("raise RuntimeError('no licence')")
    driven = make_pool(is_awaited=False, handlers=("broken_handlers",))
    while len(driven.told(ChildFailed)) < 5:
        assert driven.pool.broken is None
        driven.events += driven.pool.poll(LIMIT_S)
    assert "no licence" in (driven.pool.broken or "")
    assert driven.pool.load.replaced["start_failed"] == 5


def test_a_pool_with_a_ready_child_is_not_broken_however_often_another_fails(
    make_pool: MakePool, folder: Path
) -> None:
    text = f"open({str(folder / 'first')!r}, 'x').close()\n" + GOOD
    (folder / "only_once_handlers.py").write_text(text)
    driven = make_pool(is_awaited=False, handlers=("only_once_handlers",), processes=2)
    _failures(driven, 5)
    (ready,) = driven.pids(1)
    assert driven.pool.broken is None
    os.kill(ready, signal.SIGKILL)
    driven.death()
    assert "FileExistsError" in (driven.pool.broken or "")


def test_a_broken_pool_heals_when_a_child_becomes_ready(make_pool: MakePool, folder: Path) -> None:
    module = folder / "healing_handlers.py"
    module.write_text("raise RuntimeError")
    driven = make_pool(is_awaited=False, handlers=("healing_handlers",))
    driven.until(lambda: driven.pool.broken)
    module.write_text(GOOD)
    driven.until(lambda: driven.told(ChildReady))
    assert driven.pool.broken is None
    driven.run([job("noop")])
    os.kill(driven.pids(1)[0], signal.SIGKILL)
    driven.death()
    assert driven.pool.broken is None


def test_children_that_die_right_after_they_were_ready_are_failed_starts(
    make_pool: MakePool, folder: Path
) -> None:
    leave = (
        "import os\nimport consumer.pool.child as child\nchild._serve = lambda *_: os._exit(5)\n"
    )
    (folder / "fleeting_handlers.py").write_text(leave + GOOD)
    begun_s = time.monotonic()
    driven = make_pool(is_awaited=False, handlers=("fleeting_handlers",))
    driven.until(lambda: driven.pool.broken)
    assert time.monotonic() - begun_s > sum(doubled(*DELAY_S, n) for n in range(1, 5))
    assert driven.pool.broken == "exited with code 5 right after it was ready"
    assert {event.reason for event in driven.told(ChildDied)} == {"exited with code 5"}
    assert len(driven.told(ChildDied)) == driven.pool.load.replaced["start_failed"] == 5


def test_a_child_that_dies_with_work_is_replaced_at_once_again_and_again(
    make_pool: MakePool,
) -> None:
    driven = make_pool()
    for count in range(1, 7):
        driven.run([job("coroutine", 1, request_id=f"r{count}")])
        driven.pool.dispatch([job("exit-now", 1, request_id=f"deadly-{count}")])
        driven.until(lambda n=count: len(driven.told(ChildDied)) == n)  # type: ignore[misc]
        assert driven.pool.broken is None
        assert driven.children == 1  # not after a pause
        driven.pids(count + 1)
    assert driven.pool.load.replaced["died"] == 6
