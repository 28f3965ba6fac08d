"""Folders of an output that Hadoop leads to: whole or not at all, on each kind of file system."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feedback.files import OWNER_ONLY
from spark_audit.output import hadoop_outputs
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.output.outputs import (
    is_whole,
    new_file,
    put_text,
    replacing,
    settled,
    size_of,
    write_text,
)
from tests.spark_audit.hadoop import in_bucket, mounted
from tests.stack.s3 import S3

PART_BYTES = 5 << 20


class _Killed(BaseException):
    pass


@pytest.fixture
def output(spark: SparkSession, hadoop_output: str) -> HadoopPath:
    """Return an empty output folder."""
    return HadoopPath.of(spark, hadoop_output)


@pytest.fixture
def folder(output: HadoopPath) -> HadoopPath:
    """Return a day's folder that was never made."""
    return output / "reports" / "date=2026-11-20"


def _names(folder: HadoopPath) -> list[str]:
    return sorted(one.name for one in folder.glob("*"))


def _runs(folder: HadoopPath) -> list[int]:
    return [int(one.name.removeprefix("run=").partition("-")[0]) for one in folder.glob("run=*")]


def _put(folder: HadoopPath, name: str) -> None:
    with replacing(folder) as part:
        write_text(part / name, name)


def test_a_folder_is_there_when_it_is_whole(folder: HadoopPath) -> None:
    with replacing(folder) as part:
        write_text(part / "a", "new\r\n")
        assert not is_whole(folder)
    assert is_whole(folder)
    assert (settled(folder) / "a").read_text() == "new\r\n"
    assert _names(settled(folder)) == ["_WHOLE", "a"]


def test_a_folder_takes_the_place_of_the_one_before(folder: HadoopPath) -> None:
    _put(folder, "old")
    before = settled(folder)
    with replacing(folder) as part:
        write_text(part / "new", "new")
        assert settled(folder) == before
    assert _names(settled(folder)) == ["_WHOLE", "new"]
    assert _runs(folder) == [2]


@pytest.mark.parametrize("error", [ValueError("a fault"), KeyboardInterrupt()])
def test_what_fails_leaves_the_folder_as_it_was(folder: HadoopPath, error: BaseException) -> None:
    _put(folder, "old")
    with pytest.raises(type(error)), replacing(folder) as part:
        write_text(part / "new", "new")
        raise error
    assert _names(settled(folder)) == ["_WHOLE", "old"]
    assert _runs(folder) == [1]


def test_a_run_that_was_killed_before_its_last_file_is_not_read_and_the_next_removes_it(
    folder: HadoopPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(folder, "old")
    with monkeypatch.context() as killed:
        # Whoever is killed tidies nothing.
        killed.setattr(hadoop_outputs, "_give_up", lambda _: None)
        with pytest.raises(_Killed), replacing(folder) as part:
            write_text(part / "half", "half")
            raise _Killed
    assert _runs(folder) == [1, 2]
    assert _names(settled(folder)) == ["_WHOLE", "old"]
    _put(folder, "new")
    assert _runs(folder) == [3]
    assert _names(settled(folder)) == ["_WHOLE", "new"]


def test_a_run_that_was_killed_after_its_last_file_counts(
    folder: HadoopPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(folder, "old")
    with monkeypatch.context() as killed:
        killed.setattr(hadoop_outputs, "_give_up", lambda _: None)
        _put(folder, "new")
    assert _runs(folder) == [1, 2]
    assert _names(settled(folder)) == ["_WHOLE", "new"]
    _put(folder, "newest")
    assert _runs(folder) == [3]


def test_a_run_loses_its_last_file_first(
    folder: HadoopPath, monkeypatch: pytest.MonkeyPatch
) -> None:
    _put(folder, "old")
    removed: list[str] = []
    before = settled(folder).name
    monkeypatch.setattr(HadoopPath, "remove", lambda self: removed.append(self.name))
    _put(folder, "new")
    assert removed == ["_WHOLE", before]


def test_two_runs_of_one_folder_never_write_into_one(folder: HadoopPath) -> None:
    with replacing(folder) as first, replacing(folder) as second:
        assert first != second
        write_text(first / "a", "first")
        write_text(second / "a", "second")
    # Neither lacks a file, and one of them counts.
    assert [(one / "a").read_text() for one in (first, second)] == ["first", "second"]
    assert settled(folder) in (first, second)


def test_a_new_file_is_never_written_over_and_another_may_be(output: HadoopPath) -> None:
    write_text(output / "one", "first")
    with pytest.raises(FileExistsError):
        write_text(output / "one", "second")
    assert (output / "one").read_text() == "first"
    put_text(output / "one", "third")
    assert (output / "one").read_text() == "third"
    assert (output / "one").stat().st_size == size_of(output) == len("third")


def test_a_file_of_many_parts_is_there_whole_or_not_at_all(spark: SparkSession, s3: S3) -> None:
    # The smallest part that a store takes.
    parts = {"multipart_size": str(PART_BYTES), "multipart_threshold": str(PART_BYTES)}
    output = HadoopPath.of(spark, in_bucket(spark, s3, **parts))
    line = "x" * (PART_BYTES // 4) + "\n"
    with new_file(output / "resend.jsonl") as file:
        for _ in range(10):
            file.write(line)
        assert not (output / "resend.jsonl").exists()
    assert (output / "resend.jsonl").stat().st_size == 10 * len(line)
    assert (output / "resend.jsonl").read_text() == 10 * line


def test_a_private_file_is_for_its_owner_only(spark: SparkSession, tmp_path: Path) -> None:
    output = HadoopPath.of(spark, mounted(spark, tmp_path / "audit"))
    with new_file(output / "private", mode=OWNER_ONLY) as file:
        file.write("payload")
    assert (tmp_path / "audit" / "private").stat().st_mode & 0o777 == OWNER_ONLY


def test_what_is_not_there_is_told_as_of_a_local_file(output: HadoopPath) -> None:
    missing = output / "missing"
    assert not missing.exists()
    assert not missing.is_file()
    assert not missing.is_dir()
    assert list(missing.glob("*")) == []
    for ask in (missing.read_text, missing.stat, lambda: list(missing.iterdir())):
        with pytest.raises(FileNotFoundError):
            ask()


def test_a_scheme_without_a_connector_is_told(spark: SparkSession) -> None:
    with pytest.raises(OSError, match='No FileSystem for scheme "zzz"'):
        HadoopPath.of(spark, "zzz://here/audit")
