"""What an earlier run left, whole or not, and what the next one makes of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from feedback.errors import NotAvailable
from spark_audit.stage.snapshot import Snapshot
from spark_audit.stage.window import Window
from tests.spark_audit.run.scene import IDS, Scene
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True),
]


def _halve(folder: Path) -> None:
    """Cut the folder's only Parquet file short, as a disk without its last write does."""
    (file,) = folder.glob("*.parquet")
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    # Else its checksum would tell, which another file system may not have.
    (folder / f".{file.name}.crc").unlink()


@pytest.mark.long
def test_half_a_snapshot_is_read_anew_and_a_damaged_one_is_told(scene: Scene) -> None:
    scene.audit_goes_right()
    snapshot = Snapshot.of(scene.output, DATE)
    # A run that was killed: without the last file it is none.
    (snapshot.folder / "_COMPLETE").unlink()
    shutil.rmtree(snapshot.runs)
    (snapshot.folder.parent / ".part-date=2020-01-01").mkdir()
    scene.audit_goes_right()
    # Somebody took a part of it away.
    shutil.rmtree(snapshot.requests)
    scene.audit_goes_right()
    # Whole by its looks: what it lacks must never pass for a day with fewer requests.
    _halve(snapshot.records)
    before = (scene.output / "reports" / f"date={DATE}" / "summary.json").read_bytes()
    with pytest.raises(NotAvailable, match="parquet is not as it was written; read") as raised:
        scene.audit()
    assert str(snapshot.records) in str(raised.value)
    assert "\n" not in str(raised.value)
    assert list(scene.leftovers()) == []
    assert (scene.output / "reports" / f"date={DATE}" / "summary.json").read_bytes() == before
    shutil.rmtree(snapshot.folder)
    scene.audit_goes_right()


@pytest.mark.long
def test_a_day_after_one_of_an_older_version_is_judged_without_it(scene: Scene) -> None:
    settings = scene.settings()
    first = scene.audit(settings, Window("2020-01-01", BEGIN_MS - DAY_MS, BEGIN_MS))
    manifest = Snapshot.of(scene.output, first.summary["date"]).manifest
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"version": 1}))
    assert scene.audit_goes_right(settings).summary["counts"]["requests"] == len(IDS)


@pytest.mark.long
def test_a_topic_made_in_the_middle_of_the_day_lacks_nothing(
    scene: Scene, topic: Callable[..., str]
) -> None:
    older = topic(1)
    day_before = Window("2020-01-01", BEGIN_MS - DAY_MS, BEGIN_MS)
    first = scene.audit(scene.settings(topics=(older,)), day_before)
    assert first.summary["counts"]["requests"] == 0
    second = scene.audit_goes_right(scene.settings(topics=(older, scene.topic)))
    assert second.summary["gaps"] == []
    assert second.summary["counts"]["requests"] == len(IDS)
