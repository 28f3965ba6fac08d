"""The manifest: what was written is what is read, and nothing else passes for one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from feedback.errors import NotAvailable
from spark_audit.stage.chain import ChainLink, RunReach
from spark_audit.stage.manifest import AbortedOffsets, LogEnd, Manifest, SnapshotSource, TopicKind
from tests.spark_audit.stage.samples import manifest, partition


def test_what_was_written_is_read_again_beyond_32_bits_too(tmp_path: Path) -> None:
    written = replace(
        manifest(
            partition(begin=2**31, start=2**40, end=2**62, committed=2**41),
            partition("payments.group.dlq", 3, kind=TopicKind.DLQ),
            carried=("a", "it's <b>"),
        ),
        compacted=("payments.group.wait",),
        aborted=(AbortedOffsets("payments", 0, 2**40, 2**41),),
        log_ends=(LogEnd("payments", 0, 2**62),),
        links=(
            ChainLink("payments", 0, "id", 3, (RunReach(1, "2026-11-20", 3, 9, 2**41, 2**42, 0),)),
        ),
        source=SnapshotSource(
            ("payments",), "127.0.0.1:9092", "sqlite:///j.db", "cluster", "journal", "4"
        ),
        unseen=("a part",),
        files={"records/part-0.parquet": 2**41},
        journal_read_at_ms=2**41,
        workers={"host-1-x": 2**41},
    )
    written.write(tmp_path / "manifest.json")
    assert Manifest.read(tmp_path / "manifest.json") == written


def test_the_file_has_the_names_of_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    manifest(partition(committed=7)).write(path)
    found = json.loads(path.read_text())
    assert found.pop("version") == 6
    assert found.pop("partitions") == [
        {
            "kind": "request",
            "topic": "payments",
            "partition": 0,
            "begin": 0,
            "start": 0,
            "end": 10,
            "committed": 7,
        }
    ]
    assert sorted(found) == [
        "aborted",
        "before_ms",
        "carried",
        "compacted",
        "date",
        "deadline_s",
        "files",
        "forgotten",
        "frozen_at_ms",
        "grace_ms",
        "group",
        "hidden",
        "journal_read_at_ms",
        "lettered",
        "links",
        "log_ends",
        "number",
        "reran_since_ms",
        "reran_until_ms",
        "since_ms",
        "source",
        "unseen",
        "until_ms",
        "workers",
    ]


def test_writing_again_leaves_one_whole_file(tmp_path: Path) -> None:
    for number in range(3):
        replace(manifest(), frozen_at_ms=number).write(tmp_path / "manifest.json")
    assert [one.name for one in tmp_path.iterdir()] == ["manifest.json"]
    assert Manifest.read(tmp_path / "manifest.json").frozen_at_ms == 2


@pytest.mark.parametrize("text", ["", "{", "[]", '{"version": 6}', "{}", "null"])
def test_what_is_no_manifest_ends_with_3(tmp_path: Path, text: str) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(text)
    with pytest.raises(NotAvailable, match="version 6"):
        Manifest.read(path)


def test_one_of_an_older_version_asks_for_the_day_to_be_read_again(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    manifest().write(path)
    written = json.loads(path.read_text()) | {"version": 3}
    del written["aborted"]
    path.write_text(json.dumps(written))
    with pytest.raises(NotAvailable, match="is of version 3, and this audit reads 6: read the day"):
        Manifest.read(path)


def test_a_missing_manifest_ends_with_3(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="No such file"):
        Manifest.read(tmp_path / "manifest.json")
