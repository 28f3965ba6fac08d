"""A run that is killed at any of its steps, with its output where nothing is renamed or given back.

Whoever is killed tidies nothing: from that step on nothing more is written or removed, and the lock
stays. The next run says of the day what it would have said of it at first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from feedback.settings.settings import Settings
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.output.holder import Holder
from spark_audit.output.location import Location, output_of, uri_of
from spark_audit.output.outputs import remove, settled
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run.audit import audit_with
from tests.spark_audit.hadoop import runs_of
from tests.spark_audit.run.kill_states import KillStates
from tests.spark_audit.run.scene import IDS, LOST, WINDOW, Scene
from tests.spark_audit.stage.samples import DATE
from tests.stack.s3 import S3

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(900),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]
CHANGES = ("write_text", "new_file", "make_once", "remove")
# What a run writes, in this order: in each of these steps the next one finds another half.
FILES = ("manifest.json", "_COMPLETE", "carried.json", "report.html", "days.jsonl")

# What only a run does that follows a killed one: of the folders the one that is read once more, and
# the one of which a half is there.
AROUND = re.compile(r"make_once |remove \.lock|remove (findings|reports)/").match


class _Killed(BaseException):
    pass


class Killing:
    """Ends a run at one of its changes, and counts them.

    Args:
        is_last: whether a change is never made.
    """

    def __init__(self, is_last: Callable[[int, str], bool]) -> None:
        self._is_last = is_last
        self.changes: list[str] = []
        self.is_dead = False

    @contextmanager
    def within(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        """Let what is run in this block end so; the block goes on."""
        with monkeypatch.context() as patched:
            for name in CHANGES:
                patched.setattr(HadoopPath, name, self._guarded(getattr(HadoopPath, name)))
            try:
                yield
            except _Killed:
                self.is_dead = True

    def _guarded(self, change: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(path: HadoopPath, *words: Any, **named: Any) -> Any:
            if not self.is_dead:
                self.is_dead = self._is_last(len(self.changes), path.name)
                self.changes.append(f"{change.__name__} {path.name}")
            if self.is_dead:
                raise _Killed
            return change(path, *words, **named)

        return guarded


@pytest.fixture
def settings(scene: Scene, hadoop_output: str) -> Settings:
    """Return the settings of an audit whose output is there."""
    return _at(scene.settings(), hadoop_output)


def _at(settings: Settings, output: str) -> Settings:
    audit = settings.audit.model_copy(update={"output": output})
    return settings.model_copy(update={"audit": audit})


def _audit(scene: Scene, settings: Settings) -> Any:
    output = output_of(settings.audit.output, scene.spark)
    with alone(output, unlock=_left(output)):
        return audit_with(scene.spark, settings, WINDOW, parse_fail_on("lost>0")).summary


def _left(output: Location) -> str:
    """Return the id of a holder that did not give the lock back: this process lives on."""
    holders = [Holder.of_text(one.read_text()) for one in output.glob(".lock*")]
    followed = {one.name.removeprefix(".lock-") for one in output.glob(".lock-*")}
    return next((one.id for one in holders if one and one.id not in followed), "")


def _goes_right(scene: Scene, settings: Settings) -> None:
    """Run the day: it says what a first run says, and leaves one run of each folder."""
    output = output_of(settings.audit.output, scene.spark)
    summary = _audit(scene, settings)
    assert summary["counts"]["requests"] == summary["offsets"]["judged"] == len(IDS)
    assert _lost(scene, output) == [LOST]
    assert (output / "days.jsonl").read_text().count("\n") == 1
    for kind in ("snapshot", "sifted", "judged", "findings", "reports"):
        assert len(runs_of(output / kind / f"date={DATE}")) == 1, kind
    assert list(output.glob(".lock*")) == []


def _lost(scene: Scene, output: Location, date: str = DATE) -> list[str]:
    rows = scene.spark.read.parquet(uri_of(settled(DayPaths(output, date).findings))).collect()
    return sorted(row["request_id"] for row in rows if row["kind"] == "lost")


@pytest.mark.parametrize("hadoop_output", ["s3a"], indirect=True)
def test_run_after_run_is_killed_and_each_goes_on_where_the_last_one_was(
    scene: Scene, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in FILES:
        killing = Killing(lambda _, name, file=file: name == file)  # type: ignore[misc]
        with killing.within(monkeypatch):
            _audit(scene, settings)
        assert killing.is_dead, file
    _goes_right(scene, settings)


@pytest.mark.parametrize("hadoop_output", ["s3a"], indirect=True)
def test_a_run_may_be_killed_at_each_of_its_steps(
    scene: Scene, settings: Settings, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = KillStates(s3, settings.audit.output, around=lambda _: True)
    _goes_right_from_each(watched, scene, settings, monkeypatch)
    # Each was seen, from the lock's begin to its end.
    assert (watched.changes[0], watched.changes[-1]) == ("make_once .lock", "remove .lock")
    assert {*FILES} < {one.rpartition("/")[2].split()[-1] for one in watched.changes}
    # Of a day's first run each change leaves a state of its own; the last one ends it.
    assert len(watched.states) >= len(watched.changes) - 1


@pytest.mark.parametrize("hadoop_output", ["s3a"], indirect=True)
def test_the_run_after_it_may_be_killed_as_it_takes_the_place_and_removes_the_leftovers(
    scene: Scene, settings: Settings, s3: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    # It leaves its lock, a whole run of each folder but the last, and a half of that.
    with Killing(lambda _, name: name == "report.html").within(monkeypatch):
        _audit(scene, settings)
    watched = KillStates(s3, settings.audit.output, around=AROUND)
    _goes_right_from_each(watched, scene, settings, monkeypatch)
    around = [one for one in watched.changes if AROUND(one)]
    # Twice each: it finds the lock and makes its own; of a run the last file goes first.
    kinds = ("make_once .lock", "remove findings", "remove reports", "remove .lock")
    assert [re.split("[-/]", one)[0] for one in around] == [one for one in kinds for _ in range(2)]


def _goes_right_from_each(
    watched: KillStates, scene: Scene, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run the day, and again from each state in which that run may have been killed."""
    with watched.within(monkeypatch):
        _goes_right(scene, settings)
    # Where a file names the folder that it was written to, nothing is to be found there.
    remove(output_of(settings.audit.output, scene.spark))
    for state in watched.states:
        # Where this fails, the last one is named beside it.
        print("killed", state.moment)
        _goes_right(scene, _at(settings, state.output))
