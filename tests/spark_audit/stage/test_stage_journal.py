"""Rows and history read by JDBC, from both kinds of database: which ones, and with which types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from feedback.errors import ExitCode, NotAvailable
from onceward.servers.ports import HOST, free_port
from spark_audit.stage import stage_journal as staging
from spark_audit.stage.manifest import Manifest, TopicKind
from spark_audit.stage.stage_journal import stage_journal
from spark_audit.stage.stage_records import SCHEMA
from tests.spark_audit.stage.conftest import Rows
from tests.spark_audit.stage.journal import HandWritten
from tests.spark_audit.stage.samples import BEGIN_MS, manifest, partition

HOSTILE = (
    "it's",
    "''); DROP TABLE onceward_run; --",
    "\\'",
    'a"b',
    "{fn}",
    "?",
    "%s",
    "$1",
    "x" * 128,
)


class Staged:
    """What a staging of the journal left.

    Attributes:
        manifest: with the leases.
        requests: rows by id.
        runs: (request_id, generation) of the history, sorted.
    """

    def __init__(
        self, manifest: Manifest, requests: list[dict[str, Any]], runs: list[dict[str, Any]]
    ) -> None:
        self.manifest = manifest
        self.requests = {row["request_id"]: row for row in requests}
        assert len(self.requests) == len(requests)
        self.rows_of_runs = runs
        self.runs = sorted((row["request_id"], row["generation"]) for row in runs)


Stage = Callable[..., Staged]


@pytest.fixture
def journal(journal_url: str, group: str) -> HandWritten:
    """Return an empty journal on each kind of database."""
    return HandWritten(journal_url, group)


@pytest.fixture
def stage(
    spark: SparkSession, journal: HandWritten, tmp_path: Path, rows: Rows, group: str
) -> Stage:
    """Return a function that stages the journal beside records of these ids."""

    def all_of(
        limits: Manifest | None = None,
        *,
        ids: tuple[str, ...] = (),
        kind: TopicKind = TopicKind.REQUEST,
        is_committed: bool = True,
    ) -> Staged:
        records, requests, runs = (tmp_path / name for name in ("records", "requests", "runs"))
        given = [
            {"request_id": one, "kind": kind.value, "is_committed": is_committed} for one in ids
        ]
        spark.createDataFrame(given, SCHEMA).write.parquet(str(records))
        read = stage_journal(
            spark,
            journal.url,
            limits or manifest(group=group),
            records=records,
            requests=requests,
            runs=runs,
        )
        return Staged(read, rows(requests), rows(runs))

    return all_of


def test_a_row_is_staged_with_all_its_columns_and_their_types(
    journal: HandWritten, stage: Stage
) -> None:
    values: dict[str, object] = {
        "topic": "payments",
        "partition": 0,
        "offset": 2**40,
        "payload_sha256": "b" * 64,
        "attempt": 2**31,
        "generation": 2**33,
        "effect_kind": "marked",
        "effect_at": 2**41,
        "deadline_at": 2**42,
        "state": "FAILED",
        "owner": "it's",
        "claimed_at": 2**41 + 1,
        "due_at": 2**41 + 2,
        "finished_at": 2**41 + 3,
        "code": "HANDLER_ERROR",
        "message": "<b>ä\n'",
        "resend": True,
        "published_at": 2**41 + 4,
        "dead_letter_at": 2**41 + 5,
        "voids": 3,
    }
    journal.add_request("id-1", **values)
    assert stage().requests["id-1"] == {"request_id": "id-1", **values}


def test_what_a_row_leaves_open_is_null_and_resend_a_truth_value(
    journal: HandWritten, stage: Stage
) -> None:
    journal.add_request("id-1", claimed_at=None, finished_at=None, effect_kind=None)
    row = stage().requests["id-1"]
    open_ones = ("effect_at", "claimed_at", "due_at", "code", "message", "dead_letter_at")
    assert [row[name] for name in open_ones] == [None] * len(open_ones)
    assert row["resend"] is False


def test_rows_from_the_start_of_their_partition_on_are_staged_and_no_others(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    limits = manifest(
        partition("a", 0, start=10, end=20),
        partition("a", 1, start=2**40, end=2**40),
        partition("b", 0, start=0, end=0),
        group=group,
    )
    journal.add_request("before", topic="a", partition=0, offset=9)
    journal.add_request("first", topic="a", partition=0, offset=10)
    journal.add_request("after the end", topic="a", partition=0, offset=99)
    journal.add_request("other partition", topic="a", partition=1, offset=2**40 - 1)
    journal.add_request("beyond 32 bits", topic="a", partition=1, offset=2**40)
    journal.add_request("empty range", topic="b", partition=0, offset=0)
    journal.add_request("another topic", topic="c", partition=0, offset=10)
    journal.add_request("another group", topic="a", offset=10, group="another")
    assert set(stage(limits).requests) == {
        "first",
        "after the end",
        "beyond 32 bits",
        "empty range",
    }


def test_rows_of_letters_that_were_given_to_a_handler_are_no_requests_of_the_day(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    letters = partition("a.g.dlq", kind=TopicKind.DLQ, start=0, end=20)
    limits = manifest(partition("a", start=10, end=20), letters, group=group)
    for topic, name in (("a", "id-1"), ("a.g.dlq", "id-1.dlq.1")):
        journal.add_request(name, topic=topic, generation=2, offset=15, claimed_at=BEGIN_MS)
        journal.add_run(name, topic=topic, generation=1, offset=15)
    staged = stage(limits)
    assert (set(staged.requests), staged.runs) == ({"id-1"}, [("id-1", 1)])


def test_a_row_of_a_partition_that_kafka_does_not_know_is_staged_when_it_is_of_the_window(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("now", partition=7, claimed_at=BEGIN_MS)
    journal.add_request("before", partition=7, claimed_at=BEGIN_MS - 1)
    assert set(stage(manifest(group=group, since_ms=BEGIN_MS)).requests) == {"now"}


def test_what_was_claimed_long_before_the_day_is_staged_when_it_is_asked_for_by_name(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    limits = manifest(group=group, since_ms=BEGIN_MS)
    grace_ms = limits.grace_ms
    for request_id, at in (
        ("before", -grace_ms - 1),
        ("named", -grace_ms - 1),
        ("first", -grace_ms),
    ):
        journal.add_request(request_id, claimed_at=BEGIN_MS + at)
    journal.add_request("refused", claimed_at=None, finished_at=BEGIN_MS)
    journal.add_request("refused before", claimed_at=None, finished_at=1)
    assert set(stage(limits, ids=("named",)).requests) == {"first", "named", "refused"}


def test_a_row_that_is_claimed_anew_while_it_is_read_is_staged_once(
    journal: HandWritten, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.add_request("claimed anew")
    journal.add_request("not yet read", claimed_at=2**41)
    append = staging._Source._append
    times: list[Path] = []

    def change_after(source: Any, frame: Any, folder: Path) -> None:
        append(source, frame, folder)
        if not times:
            journal.change(f"UPDATE onceward_request SET claimed_at = {2**41}, generation = 2")
        times.append(folder)

    monkeypatch.setattr(staging._Source, "_append", change_after)
    found = stage().requests
    assert {one: row["generation"] for one, row in found.items()} == {
        "claimed anew": 1,
        "not yet read": 2,
    }


def test_a_resend_after_midnight_brings_the_row_of_the_day_before(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    limits = manifest(partition(start=100, end=200), group=group)
    for request_id in ("answered", "untouched", *HOSTILE):
        journal.add_request(request_id, offset=5)
    journal.add_request("of another group", offset=5, group="another")
    found = stage(limits, ids=("answered", "of another group", "nowhere", *HOSTILE))
    assert set(found.requests) == {"answered", *HOSTILE}


def test_a_record_that_is_not_committed_yet_brings_no_row_of_another_day(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("pending", offset=5)
    limits = manifest(partition(start=100, end=200), group=group)
    assert set(stage(limits, ids=("pending",), is_committed=False).requests) == set()


def test_a_dead_letter_brings_the_row_of_the_day_before(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("dead", offset=5)
    limits = manifest(partition(start=100, end=200), group=group)
    found = stage(limits, ids=("dead",), kind=TopicKind.DLQ, is_committed=False)
    assert set(found.requests) == {"dead"}


def test_what_an_earlier_run_carried_over_is_staged_with_its_history(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    limits = manifest(partition(start=100, end=200), group=group, carried=HOSTILE)
    for request_id in HOSTILE:
        journal.add_request(request_id, generation=2, offset=5)
        journal.add_run(request_id, offset=4)
    found = stage(limits)
    assert set(found.requests) == set(HOSTILE)
    assert found.runs == sorted((request_id, 1) for request_id in HOSTILE)


def test_more_ids_than_can_be_asked_for_by_name_are_found_all_the_same(
    journal: HandWritten, stage: Stage, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "MAX_IDS", 2)
    for number in range(5):
        journal.add_request(f"id-{number}", generation=2, offset=5)
        journal.add_run(f"id-{number}", offset=4)
    found = stage(
        manifest(partition(start=100, end=200), group=group),
        ids=("id-0", "id-1", "id-2", "id-0"),
    )
    assert set(found.requests) == {"id-0", "id-1", "id-2"}
    assert found.runs == [("id-0", 1), ("id-1", 1), ("id-2", 1)]


def test_history_is_staged_once_whether_its_run_or_its_row_is_of_the_window(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    limits = manifest(partition(start=10, end=20), group=group)
    journal.add_request("today", generation=3, offset=15)
    journal.add_run("today", generation=1, offset=5)
    journal.add_run("today", generation=2, offset=12)
    journal.add_request("elsewhere", generation=2, offset=11)
    journal.add_run("elsewhere", generation=1, topic="gone", partition=3)
    journal.add_request("row gone by", generation=2, offset=5)
    journal.add_run("row gone by", generation=1, offset=10)
    journal.add_request("yesterday", generation=2, offset=5)
    journal.add_run("yesterday", generation=1, offset=4)
    journal.add_run("no row", generation=1, offset=19)
    journal.add_run("today", generation=9, offset=12, group="another")
    assert stage(limits).runs == [
        ("elsewhere", 1),
        ("no row", 1),
        ("row gone by", 1),
        ("today", 1),
        ("today", 2),
    ]


def test_what_ran_again_since_the_last_reading_is_staged_wherever_its_record_lies(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    limits = replace(manifest(partition(start=10, end=20), group=group), reran_since_ms=2**40)
    for request_id, generation, claimed_at in (
        ("again", 2, 2**40),
        ("before", 2, 2**40 - 1),
        ("once", 1, 2**40),
    ):
        journal.add_request(request_id, generation=generation, claimed_at=claimed_at, offset=5)
        journal.add_run(request_id, offset=4)
    journal.add_request("again elsewhere", generation=2, topic="letters", offset=5)
    found = stage(limits)
    assert (set(found.requests), found.runs) == ({"again"}, [("again", 1)])


def test_the_history_of_a_record_whose_row_is_gone_is_staged_wherever_its_run_was(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("there", offset=5)
    for request_id in ("gone", "there", "another"):
        journal.add_run(request_id, offset=4)
    limits = manifest(partition(start=10, end=20), group=group)
    assert stage(limits, ids=("gone", "there")).runs == [("gone", 1)]


def test_a_run_is_staged_with_all_its_columns(journal: HandWritten, stage: Stage) -> None:
    values: dict[str, object] = {
        "generation": 2**33,
        "attempt": 2**32,
        "owner": "me",
        "topic": "payments",
        "partition": 0,
        "offset": 2**40,
        "claimed_at": 2**41,
        "effect_at": 2**41 + 1,
        "effect_kind": "marked",
        "ended_at": 2**41 + 2,
        "outcome": "WORKER_DIED",
        "by_whom": "you",
        "allowed_by": "SAME_KEY",
    }
    journal.add_run("id-1", **values)
    assert stage().rows_of_runs == [{"request_id": "id-1", **values}]


def test_history_of_before_the_column_allowed_by_has_null_there(
    journal: HandWritten, stage: Stage
) -> None:
    journal.add_run("id-1", allowed_by="SAME_KEY")
    journal.change("ALTER TABLE onceward_run DROP COLUMN allowed_by")
    assert [row["allowed_by"] for row in stage().rows_of_runs] == [None]


def test_leases_are_those_of_the_group_and_time_is_the_databases(
    journal: HandWritten, stage: Stage
) -> None:
    journal.add_worker("host-1-x", 2**41)
    journal.add_worker("host-2-y", 1)
    journal.add_worker("host-3-z", 2**41, group="another")
    read = stage().manifest
    assert read.workers == {"host-1-x": 2**41, "host-2-y": 1}
    assert abs(read.journal_read_at_ms - (BEGIN_MS + 86_400_000)) < 2 * 86_400_000


def test_a_journal_without_any_worker_has_no_leases(journal: HandWritten, stage: Stage) -> None:
    assert stage().manifest.workers == {}


def test_an_empty_journal_beside_delivered_records_ends_with_3(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("id-1", group="another")
    with pytest.raises(NotAvailable, match=f"no request of group {group}"):
        stage(ids=("id-1",))


def test_an_empty_journal_beside_records_that_nobody_took_is_fine(stage: Stage) -> None:
    assert stage(ids=("id-1",), is_committed=False).requests == {}


def test_a_group_whose_rows_are_all_of_another_day_is_no_empty_journal(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("old", offset=5)
    limits = manifest(partition(start=100, end=200), group=group)
    assert stage(limits, ids=("lost",)).requests == {}


def test_a_database_without_tables_ends_with_3_and_says_what_to_do(
    journal: HandWritten, stage: Stage
) -> None:
    for table in ("onceward_run", "onceward_request", "onceward_worker", "onceward_meta"):
        journal.change(f"DROP TABLE {table}")
    with pytest.raises(NotAvailable, match="onceward-worker migrate") as raised:
        stage()
    assert raised.value.exit_code is ExitCode.NOT_AVAILABLE


def test_a_table_that_goes_away_in_the_middle_ends_with_3(
    journal: HandWritten, stage: Stage
) -> None:
    journal.add_request("id-1")
    journal.change("DROP TABLE onceward_run")
    with pytest.raises(NotAvailable):
        stage()


def test_a_server_that_is_away_ends_with_3_and_never_shows_the_password(
    spark: SparkSession, tmp_path: Path
) -> None:
    url = f"postgresql+psycopg://me:secret@{HOST}:{free_port()}/onceward"
    with pytest.raises(NotAvailable, match="cannot be read: Connection refused") as raised:
        stage_journal(
            spark,
            url,
            manifest(),
            records=tmp_path / "records",
            requests=tmp_path / "requests",
            runs=tmp_path / "runs",
        )
    assert str(raised.value).startswith(f"the journal jdbc:postgresql://{HOST}:")
    assert "secret" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_no_database_ends_with_3(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_text("not a database " * 1000)
    with pytest.raises(NotAvailable, match="not a database"):
        stage_journal(
            spark,
            f"sqlite:///{tmp_path / 'journal.db'}",
            manifest(),
            records=tmp_path / "records",
            requests=tmp_path / "requests",
            runs=tmp_path / "runs",
        )


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_a_database_that_goes_away_in_the_middle_ends_with_3(
    journal: HandWritten, stage: Stage
) -> None:
    journal.add_request("id-1")
    journal.change("ALTER TABLE onceward_request RENAME TO kept")
    # It lives until a row is read: then it ends the reader's own connection.
    journal.change(
        "CREATE VIEW onceward_request AS "
        "SELECT * FROM kept WHERE pg_terminate_backend(pg_backend_pid())"
    )
    with pytest.raises(NotAvailable, match=r"cannot be read: .*connection"):
        stage()
