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
from tests.spark_audit.stage.samples import BEGIN_MS, DAY_MS, manifest, partition

# The rows of these tests end in 2004, but for those that say otherwise.
SINCE_MS = 2**40
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
    """Return a function that stages the journal beside records of these ids: of delivered
    requests, of dead letters, and of requests that are not committed yet."""

    def all_of(
        limits: Manifest | None = None,
        *,
        ids: tuple[str, ...] = (),
        letters: tuple[str, ...] = (),
        pending: tuple[str, ...] = (),
    ) -> Staged:
        requests, runs = (tmp_path / name for name in ("requests", "runs"))
        given = [
            {"request_id": one, "kind": kind.value, "is_committed": is_committed}
            for names, kind, is_committed in (
                (ids, TopicKind.REQUEST, True),
                (letters, TopicKind.DLQ, False),
                (pending, TopicKind.REQUEST, False),
            )
            for one in names
        ]
        read = stage_journal(
            spark,
            journal.url,
            limits or manifest(group=group),
            records=spark.createDataFrame(given, SCHEMA),
            requests=requests,
            runs=runs,
        )
        return Staged(read, rows(requests), rows(runs))

    return all_of


def _claim_anew_after_the_first_read(journal: HandWritten, patch: pytest.MonkeyPatch) -> None:
    """Let two requests be claimed anew when the first of the rows have been written."""
    append = staging._Source._append
    times: list[Path] = []

    def change_after(source: Any, frame: Any, folder: Path) -> None:
        append(source, frame, folder)
        if not times:
            journal.change(
                f"UPDATE onceward_request SET claimed_at = {2**41}, generation = 2 "
                "WHERE request_id IN ('claimed anew', 'not yet read')"
            )
        times.append(folder)

    patch.setattr(staging._Source, "_append", change_after)


def test_rows_runs_and_leases_are_staged_once_with_all_their_columns_and_types(
    journal: HandWritten, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = {"topic": "payments", "partition": 0, "offset": 2**40}
    row: dict[str, object] = {
        **place,
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
    run: dict[str, object] = {
        **place,
        "generation": 2**33,
        "attempt": 2**32,
        "owner": "me",
        "claimed_at": 2**41,
        "effect_at": 2**41 + 1,
        "effect_kind": "marked",
        "ended_at": 2**41 + 2,
        "outcome": "WORKER_DIED",
        "by_whom": "you",
        "allowed_by": "SAME_KEY",
    }
    journal.add_request("id-1", **row)
    journal.add_request("open", claimed_at=None, finished_at=None, effect_kind=None)
    journal.add_run("without a row", **run)
    journal.add_worker("host-1-x", 2**41)
    journal.add_worker("host-2-y", 1)
    journal.add_worker("host-3-z", 2**41, group="another")
    journal.add_request("claimed anew")
    journal.add_request("not yet read", claimed_at=2**41)
    _claim_anew_after_the_first_read(journal, monkeypatch)
    staged = stage()
    changed = ("claimed anew", "not yet read")
    assert [staged.requests[one]["generation"] for one in changed] == [1, 2]
    assert staged.requests["id-1"] == {"request_id": "id-1", **row}
    assert staged.rows_of_runs == [{"request_id": "without a row", **run}]
    # A column that a row leaves open is null, and `resend` a truth value.
    found = staged.requests["open"]
    open_ones = ("effect_at", "claimed_at", "due_at", "code", "message", "dead_letter_at")
    assert [found[name] for name in open_ones] == [None] * len(open_ones)
    assert found["resend"] is False
    # The leases are those of the group, and the time is the database's.
    assert staged.manifest.workers == {"host-1-x": 2**41, "host-2-y": 1}
    assert abs(staged.manifest.journal_read_at_ms - (BEGIN_MS + DAY_MS)) < 2 * DAY_MS


def test_rows_are_staged_by_their_place_and_by_the_time_of_their_claim(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    limits = manifest(
        partition("a", 0, start=10, end=20),
        partition("a", 1, start=2**40, end=2**40),
        partition("b", 0, start=0, end=0),
        partition("a.g.dlq", kind=TopicKind.DLQ, start=0, end=20),
        group=group,
        since_ms=SINCE_MS,
    )
    wanted = set()

    def add(request_id: str, *, is_staged: bool, topic: str = "a", **given: Any) -> None:
        journal.add_request(request_id, topic=topic, **{"claimed_at": SINCE_MS, **given})
        if is_staged:
            wanted.add(request_id)

    # From the start of its partition on.
    add("before the start", offset=9, is_staged=False)
    add("first", offset=10, is_staged=True)
    add("after the end", offset=99, is_staged=True)
    add("other partition", partition=1, offset=2**40 - 1, is_staged=False)
    add("beyond 32 bits", partition=1, offset=2**40, is_staged=True)
    add("empty range", topic="b", offset=0, is_staged=True)
    add("another topic", topic="c", offset=10, is_staged=False)
    add("another group", offset=10, group="another", is_staged=False)
    # Of a partition that Kafka does not know, when it is of the window.
    add("unknown partition", partition=7, is_staged=True)
    add("and before", partition=7, claimed_at=SINCE_MS - 1, is_staged=False)
    # Claimed long before the day: when it is asked for by name.
    long_ago = SINCE_MS - limits.grace_ms - 1
    add("long ago", offset=15, claimed_at=long_ago, is_staged=False)
    add("named", offset=15, claimed_at=long_ago, is_staged=True)
    add("within the grace", offset=15, claimed_at=long_ago + 1, is_staged=True)
    add("refused", offset=15, claimed_at=None, finished_at=SINCE_MS, is_staged=True)
    add("refused before", offset=15, claimed_at=None, finished_at=1, is_staged=False)
    # A letter that was given to a handler is no request of the day.
    add("failed", offset=15, generation=2, is_staged=True)
    add("failed.dlq.1", topic="a.g.dlq", offset=15, generation=2, is_staged=False)
    journal.add_run("failed", topic="a", generation=1, offset=15)
    journal.add_run("failed.dlq.1", topic="a.g.dlq", generation=1, offset=15)
    staged = stage(limits, ids=("named",))
    assert (set(staged.requests), staged.runs) == (wanted, [("failed", 1)])


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


def test_what_is_named_is_staged_whatever_its_day_and_history_with_its_run_its_row_and_its_record(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    carried = tuple(f"{one[:127]}c" for one in HOSTILE)
    limits = manifest(partition(start=10, end=20), group=group, carried=carried)
    limits = replace(limits, reran_since_ms=2**40)
    # A resend after midnight, a dead letter, and a record that is not committed yet.
    for request_id in ("answered", "dead", "pending", "untouched", *HOSTILE):
        journal.add_request(request_id, offset=5)
    journal.add_request("of another group", offset=5, group="another")
    for request_id in carried:
        journal.add_request(request_id, generation=2, offset=5, claimed_at=2**40 - 1)
        journal.add_run(request_id, offset=4)
    before: dict[str, Any] = {"generation": 2, "offset": 5, "claimed_at": 2**40 - 1}
    # Once, whether the run or the row is of the window.
    journal.add_request("today", generation=3, offset=15)
    journal.add_run("today", generation=1, offset=5)
    journal.add_run("today", generation=2, offset=12)
    journal.add_request("elsewhere", generation=2, offset=11)
    journal.add_run("elsewhere", generation=1, topic="gone", partition=3)
    journal.add_request("row gone by", **before)
    journal.add_run("row gone by", generation=1, offset=10)
    journal.add_request("yesterday", **before)
    journal.add_run("yesterday", generation=1, offset=4)
    journal.add_run("no row", generation=1, offset=19)
    journal.add_run("today", generation=9, offset=12, group="another")
    # What ran again since the last reading, wherever its record lies.
    for request_id, changed in (
        ("again", {"claimed_at": 2**40}),
        ("ran before", {}),
        ("ran once", {"generation": 1, "claimed_at": 2**40}),
    ):
        journal.add_request(request_id, **(before | changed))
        journal.add_run(request_id, offset=4)
    journal.add_request("again elsewhere", generation=2, topic="letters", offset=5)
    # Of a record whose row is gone, wherever its run was.
    journal.add_request("row there", offset=5)
    for request_id in ("row taken away", "row there", "of no record"):
        journal.add_run(request_id, offset=4, allowed_by="SAME_KEY")
    # A history of before that column.
    journal.change("ALTER TABLE onceward_run DROP COLUMN allowed_by")
    by_record = ("row taken away", "row there", "answered", "of another group", "nowhere")
    staged = stage(limits, ids=(*by_record, *HOSTILE), letters=("dead",), pending=("pending",))
    of_the_day = {"today", "elsewhere", "again"}
    named = {"row there", "answered", "dead", *HOSTILE, *carried}
    assert set(staged.requests) == of_the_day | named
    assert [one for one in staged.runs if one[0] in carried] == sorted((one, 1) for one in carried)
    assert [one for one in staged.runs if one[0] not in carried] == [
        ("again", 1),
        ("elsewhere", 1),
        ("no row", 1),
        ("row gone by", 1),
        ("row taken away", 1),
        ("today", 1),
        ("today", 2),
    ]
    assert {row["allowed_by"] for row in staged.rows_of_runs} == {None}


def test_an_empty_journal_without_workers_is_fine_beside_records_that_nobody_took(
    stage: Stage,
) -> None:
    staged = stage(pending=("id-1",))
    assert (staged.requests, staged.manifest.workers) == ({}, {})


def test_an_empty_journal_beside_delivered_records_ends_with_3(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("id-1", group="another")
    with pytest.raises(NotAvailable, match=f"no request of group {group}"):
        stage(ids=("id-1",))


def test_a_group_whose_rows_are_all_of_another_day_is_no_empty_journal(
    journal: HandWritten, stage: Stage, group: str
) -> None:
    journal.add_request("old", offset=5)
    limits = manifest(partition(start=100, end=200), group=group)
    assert stage(limits, ids=("lost",)).requests == {}


def test_a_database_without_tables_ends_with_3_and_says_what_to_do(
    journal: HandWritten, stage: Stage
) -> None:
    journal.change("DROP VIEW IF EXISTS onceward_open_request")
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
    with pytest.raises(NotAvailable, match=r"cannot be read: .*Connection refused") as raised:
        stage_journal(
            spark,
            url,
            manifest(),
            records=spark.createDataFrame([], SCHEMA),
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
            records=spark.createDataFrame([], SCHEMA),
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
