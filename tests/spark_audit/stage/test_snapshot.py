"""A whole snapshot from the real stack, and every way in which half of one is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feedback.errors import NotAvailable
from feedback.records.envelope import REQUEST_ID
from feedback.settings.settings import Settings
from spark_audit.stage import snapshot
from spark_audit.stage.freeze import freeze
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.snapshot import Snapshot, take
from spark_audit.stage.window import Window
from tests.spark_audit.stage.conftest import Append, Commit, MakeSettings, Rows
from tests.spark_audit.stage.journal import HandWritten
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS, manifest

WINDOW = Window(DATE, BEGIN_MS, BEGIN_MS + DAY_MS)
MakeTopic = Callable[..., str]
StageFake = Callable[..., Manifest]


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """Return settings whose output is a folder of the test."""
    return Settings.model_validate({"audit": {"output": str(tmp_path / "audit")}})


def names(settings: Settings) -> set[str]:
    """Return what lies beside a day's snapshot."""
    folder = Path(settings.audit.output) / "snapshot"
    return {one.name for one in folder.iterdir()} if folder.is_dir() else set()


def staging_that(act: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let both stages be one that does something in the snapshot's folder."""

    def records(spark: object, kafka: object, given: Manifest, folder: Path) -> None:
        folder.mkdir()
        act(folder.parent)

    def journal(spark: object, url: str, given: Manifest, **folders: Path) -> Manifest:
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
        return given

    monkeypatch.setattr(snapshot, "stage_records", records)
    monkeypatch.setattr(snapshot, "read_written", lambda _, folder, schema: folder)
    monkeypatch.setattr(snapshot, "aborted_of", lambda *_: ())
    monkeypatch.setattr(snapshot, "counted_links", lambda *_: ())
    monkeypatch.setattr(snapshot, "stage_journal", journal)
    monkeypatch.setattr(snapshot, "log_ends", lambda *_: ())


def test_a_day_is_read_whole_and_put_in_its_place(
    spark: SparkSession,
    topic: MakeTopic,
    append: Append,
    commit: Commit,
    journal_url: str,
    group: str,
    make_settings: MakeSettings,
    rows: Rows,
) -> None:
    name = topic(2)
    append(name, headers=[(REQUEST_ID, b"id-1")], timestamp_ms=BEGIN_MS + 1)
    commit(name, 1)
    journal = HandWritten(journal_url, group)
    journal.add_request("id-1", topic=name, offset=0, generation=2)
    journal.add_run("id-1", topic=name, offset=0)
    journal.add_worker("host-1-x", 2**41)
    settings = make_settings(name, journal=journal_url)
    found = take(
        spark,
        settings,
        freeze(settings, WINDOW, now_ms=BEGIN_MS + DAY_MS),
        Path(settings.audit.output),
    )
    assert found == Snapshot.of(Path(settings.audit.output), DATE)
    assert found.is_complete
    assert [row["request_id"] for row in rows(found.records)] == ["id-1"]
    assert [row["request_id"] for row in rows(found.requests)] == ["id-1"]
    assert [row["request_id"] for row in rows(found.runs)] == ["id-1"]
    assert Manifest.read(found.manifest).workers == {"host-1-x": 2**41}
    assert names(settings) == {f"date={DATE}"}


def test_a_staging_that_fails_leaves_nothing_that_looks_like_a_snapshot(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(part: Path) -> None:
        (part / "records" / "half").touch()
        raise NotAvailable("the broker is away")

    staging_that(fail, monkeypatch)
    with pytest.raises(NotAvailable, match="the broker is away"):
        take(spark, settings, manifest(), Path(settings.audit.output))
    assert names(settings) == set()


def test_a_staging_that_fails_leaves_the_older_snapshot_as_it_was(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging_that(lambda part: None, monkeypatch)
    place = take(spark, settings, manifest(), Path(settings.audit.output))
    written = place.manifest.read_text()

    def fail(part: Path) -> None:
        raise NotAvailable("away")

    staging_that(fail, monkeypatch)
    with pytest.raises(NotAvailable):
        take(spark, settings, manifest(group="another"), Path(settings.audit.output))
    assert place.is_complete
    assert place.manifest.read_text() == written


def test_a_newer_snapshot_takes_the_place_of_the_older_whole(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging_that(lambda part: (part / "records" / "old").touch(), monkeypatch)
    take(spark, settings, manifest(), Path(settings.audit.output))
    staging_that(lambda part: None, monkeypatch)
    place = take(spark, settings, manifest(group="another"), Path(settings.audit.output))
    assert list(place.records.iterdir()) == []
    assert Manifest.read(place.manifest).group == "another"
    assert names(settings) == {f"date={DATE}"}


def test_half_a_snapshot_of_a_run_that_died_is_thrown_away(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(settings.audit.output) / "snapshot"
    (folder / ".part-date=2020-01-01" / "records").mkdir(parents=True)
    half = Snapshot.of(Path(settings.audit.output), DATE)
    half.records.mkdir(parents=True)
    assert not half.is_complete
    staging_that(lambda part: None, monkeypatch)
    assert take(spark, settings, manifest(), Path(settings.audit.output)).is_complete
    assert names(settings) == {f"date={DATE}"}


@pytest.mark.parametrize("part", ["manifest", "records", "requests", "runs"])
def test_one_of_which_a_part_was_taken_away_is_none(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    staging_that(lambda part: None, monkeypatch)
    place = take(spark, settings, manifest(), Path(settings.audit.output))
    assert place.is_complete
    getattr(place, part).rename(place.folder / "elsewhere")
    assert not place.is_complete


@pytest.mark.parametrize("part", ["records", "requests", "runs"])
def test_a_file_that_is_cut_short_missing_or_foreign_is_named(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    def write(folder: Path) -> None:
        (folder / part).mkdir(exist_ok=True)
        (folder / part / "0.parquet").write_bytes(b"whole")

    staging_that(write, monkeypatch)
    place = take(spark, settings, manifest(), Path(settings.audit.output))
    written = Manifest.read(place.manifest)
    place.require_whole(written)
    file = place.folder / part / "0.parquet"
    again = f"read the day again: onceward-audit run --date {DATE} --again"
    file.write_bytes(b"who")
    with pytest.raises(NotAvailable, match=f"{file} is not as it was written; {again}"):
        place.require_whole(written)
    foreign = file.rename(file.with_name("1.parquet"))
    with pytest.raises(NotAvailable, match=f"{file} is missing; {again}"):
        place.require_whole(written)
    file.write_bytes(b"whole")
    with pytest.raises(NotAvailable, match=f"{foreign} is not as it was written; {again}"):
        place.require_whole(written)


def test_nothing_is_complete_before_it_is_in_its_place(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    place = Snapshot.of(Path(settings.audit.output), DATE)

    def look(part: Path) -> None:
        seen.append((place.is_complete, Snapshot(part).is_complete))

    staging_that(look, monkeypatch)
    take(spark, settings, manifest(), Path(settings.audit.output))
    assert seen == [(False, False)]


def test_a_folder_that_cannot_be_written_ends_with_3(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(settings.audit.output).touch()
    staging_that(lambda part: None, monkeypatch)
    with pytest.raises(NotAvailable, match=r"date=.* cannot be written: Not a directory"):
        take(spark, settings, manifest(), Path(settings.audit.output))


def test_a_disk_that_is_full_ends_with_3_and_leaves_nothing(
    spark: SparkSession, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(part: Path) -> None:
        (part / "records").rmdir()
        # Every write to it fails as on a full disk.
        (part / "records").symlink_to("/dev/full")
        with (part / "records").open("w") as file:
            file.write("x")

    staging_that(fill, monkeypatch)
    with pytest.raises(NotAvailable, match="No space left on device"):
        take(spark, settings, manifest(), Path(settings.audit.output))
    assert names(settings) == set()
