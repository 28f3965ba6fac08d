"""Old days are cut down to what later days need, whenever it dies on the way."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from spark_audit.output.outputs import remove
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run import day_pruning as pruning
from spark_audit.run.commands import cli
from spark_audit.run.day_pruning import Pruned, prune
from spark_audit.stage.days import days_of
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.snapshot import Snapshot
from tests.spark_audit.say.samples import manifest

DATES = ("2026-11-17", "2026-11-18", "2026-11-19")
OLD, SECOND, NEWEST = DATES
ALL = "2026-12-31"
KEPT = {"carried.json", "report.html", "summary.json"}
SIZE = 100


def _add(output: Path, date: str, number: int, *, is_judged: bool = True) -> None:
    snapshot, places = Snapshot.of(output, date), DayPaths(output, date)
    folders = [snapshot.records, snapshot.requests, snapshot.runs]
    if is_judged:
        folders += [places.sifted, places.judged, places.findings / "kind=lost"]
    for folder in folders:
        folder.mkdir(parents=True)
        (folder / "part-0.parquet").write_bytes(b"x" * SIZE)
    replace(manifest(), date=date, number=number).write(snapshot.manifest)
    snapshot.complete()
    if is_judged:
        places.report.mkdir(parents=True)
        for name in (*KEPT, "resend.jsonl", "in_doubt.csv"):
            (places.report / name).write_bytes(b"x" * SIZE)
        places.summary.write_text(json.dumps({"frozen_at_ms": manifest().frozen_at_ms}))


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """Return a folder of three days."""
    for number, date in enumerate(DATES, start=1):
        _add(tmp_path, date, number)
    return tmp_path


def _files(output: Path, date: str) -> set[str]:
    return {one.name for one in output.rglob("*") if one.is_file() and date in str(one)}


def _chain(output: Path) -> list[Manifest]:
    return list(days_of(output))


def test_of_an_old_day_the_manifest_the_verdict_and_the_carry_over_are_left(output: Path) -> None:
    chain, newest = _chain(output), _files(output, NEWEST)
    # Three folders of the snapshot, three made of it, two lists.
    assert prune(output, before=ALL) == [Pruned(OLD, 8 * SIZE), Pruned(SECOND, 8 * SIZE)]
    for date in (OLD, SECOND):
        assert _files(output, date) == {*KEPT, "manifest.json", "_COMPLETE", "_PRUNED"}
    assert _files(output, NEWEST) == newest
    assert _chain(output) == chain
    assert prune(output, before=ALL) == []


def test_days_that_are_not_old_stay_whole(output: Path) -> None:
    assert [one.date for one in prune(output, before=SECOND)] == [OLD]
    assert Snapshot.of(output, SECOND).is_complete


def test_the_newest_verdict_and_a_day_that_nobody_has_judged_stay(output: Path) -> None:
    # Its run died after it was read: the next one judges it.
    _add(output, "2026-11-20", 4, is_judged=False)
    _add(output, "2026-11-16", 5, is_judged=False)
    assert [one.date for one in prune(output, before=ALL)] == [OLD, SECOND]
    for date in ("2026-11-16", NEWEST, "2026-11-20"):
        assert Snapshot.of(output, date).is_complete


def test_half_a_snapshot_is_none_and_is_left_to_the_runs(output: Path) -> None:
    (Snapshot.of(output, OLD).folder / "_COMPLETE").unlink()
    assert [one.date for one in prune(output, before=ALL)] == [SECOND]


@pytest.mark.parametrize("steps", range(8))
def test_it_may_die_after_each_step(
    output: Path, steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain, left = _chain(output), steps

    def die_at_last(path: Path) -> None:
        nonlocal left
        if not left:
            raise KeyboardInterrupt
        left -= 1
        remove(path)

    with monkeypatch.context() as dying:
        dying.setattr(pruning, "remove", die_at_last)
        with pytest.raises(KeyboardInterrupt):
            prune(output, before=ALL)
    # No run judges what is left of it, the chain has it, and what people read is whole.
    assert not Snapshot.of(output, OLD).is_complete
    assert _chain(output) == chain
    assert _files(output, OLD) >= KEPT
    assert prune(output, before=ALL)[0].bytes == (8 - steps) * SIZE
    assert _files(output, OLD) == {*KEPT, "manifest.json", "_COMPLETE", "_PRUNED"}


def test_before_the_mark_is_written_the_day_is_whole(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(_: Snapshot[Path]) -> None:
        raise KeyboardInterrupt

    before = _files(output, OLD)
    monkeypatch.setattr(Snapshot, "mark_pruned", die)
    with pytest.raises(KeyboardInterrupt):
        prune(output, before=ALL)
    assert _files(output, OLD) == before


def _command(output: Path, *arguments: str) -> Result:
    environ = {"ONCEWARD_AUDIT__OUTPUT": str(output), "ONCEWARD_CONFIG": ""}
    return CliRunner().invoke(cli, ["prune", *arguments], env=environ)


def test_the_command_says_what_it_removed_and_a_dry_run_removes_nothing(
    output: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = {one for one in output.rglob("*") if one.is_file()}
    # Days are counted from today.
    monkeypatch.setattr("spark_audit.run.commands.epoch_ms", lambda: epoch_ms() + 10**12)
    dry = _command(output, "--keep-days", "1", "--dry-run", "--json")
    assert dry.exit_code == ExitCode.FINE, dry.output
    told = {"days": [{"date": one, "bytes": 8 * SIZE} for one in (OLD, SECOND)]}
    assert json.loads(dry.stdout) == {**told, "bytes": 16 * SIZE, "dry_run": True}
    assert {one for one in output.rglob("*") if one.is_file()} >= before
    done = _command(output, "--keep-days", "1")
    assert done.stdout == f"removed {16 * SIZE} bytes of 2 days\n"
    assert Snapshot.of(output, OLD).is_pruned


def test_it_refuses_while_a_run_holds_the_folder(output: Path) -> None:
    with alone(output):
        refused = _command(output)
    assert refused.exit_code == ExitCode.NOT_AVAILABLE
    assert "another audit writes to" in refused.output
    assert Snapshot.of(output, OLD).is_complete
