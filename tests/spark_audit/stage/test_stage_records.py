"""Records read by Spark from a real broker: every one of the frozen range, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession

from feedback.errors import NotAvailable
from feedback.records.envelope import (
    ATTEMPT,
    DEADLINE,
    GROUP,
    REOPENS,
    REQUEST_ID,
    payload_sha256,
)
from feedback.settings.settings import KafkaSection, Settings
from onceward.servers.ports import HOST, free_port
from spark_audit.stage.freeze import freeze
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.stage_records import SCHEMA, stage_records
from spark_audit.stage.window import Window
from tests.eventually import HANG_S, eventually
from tests.spark_audit.stage.conftest import Append, Commit, MakeSettings, Rows
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS, manifest, partition
from tests.stack import Servers
from tests.transactions import Transactions

MakeTopic = Callable[..., str]
Stage = Callable[..., list[dict[str, object]]]

WINDOW = Window(DATE, BEGIN_MS, BEGIN_MS + DAY_MS)
STAGED_WITHIN_S = 240.0


@pytest.fixture
def stage(spark: SparkSession, tmp_path: Path, rows: Rows) -> Stage:
    """Return a function that freezes and stages, and gives the rows in the order of offsets."""

    def all_of(settings: Settings, limits: Manifest | None = None) -> list[dict[str, object]]:
        limits = limits or freeze(settings, WINDOW, now_ms=BEGIN_MS + DAY_MS)
        stage_records(spark, settings.kafka, limits, tmp_path / "records")
        return sorted(rows(tmp_path / "records"), key=lambda row: (row["topic"], row["offset"]))

    return all_of


def java_of(spark: SparkSession) -> psutil.Process:
    """Return Spark's Java."""
    assert spark._jvm is not None
    return psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())


def has_consumers(java: psutil.Process, servers: Servers) -> bool:
    """Say whether it is connected to Kafka."""
    port = int(servers.kafka.rpartition(":")[2])
    return any(one.raddr and one.raddr.port == port for one in java.net_connections("tcp"))


def test_a_record_is_staged_with_all_that_is_known_of_it(
    topic: MakeTopic, append: Append, commit: Commit, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    headers = [(REQUEST_ID, b"id-1"), (ATTEMPT, b"2"), (DEADLINE, b"1999999999999")]
    append(name, b"{}", key=b"k", headers=headers, timestamp_ms=BEGIN_MS + 1)
    append(name, None, key=b"", timestamp_ms=BEGIN_MS + DAY_MS)
    commit(name, 1)
    assert stage(make_settings(name)) == [
        {
            "kind": "request",
            "topic": name,
            "partition": 0,
            "offset": 0,
            "timestamp_ms": BEGIN_MS + 1,
            "request_id": "id-1",
            "attempt": 2,
            "deadline_at": 1999999999999,
            "payload_sha256": payload_sha256(b"k", b"{}"),
            "is_malformed": False,
            "is_committed": True,
            "in_window": True,
            "arrived_by_ms": BEGIN_MS + DAY_MS,
            "reason": None,
            "original_topic": None,
            "original_partition": None,
            "original_offset": None,
            "reopens": None,
        },
        {
            "kind": "request",
            "topic": name,
            "partition": 0,
            "offset": 1,
            "timestamp_ms": BEGIN_MS + DAY_MS,
            "request_id": f"{name}-0-1-{BEGIN_MS + DAY_MS}",
            "attempt": 1,
            "deadline_at": None,
            "payload_sha256": payload_sha256(b"", None),
            "is_malformed": False,
            "is_committed": False,
            "in_window": False,
            "arrived_by_ms": BEGIN_MS + DAY_MS,
            "reason": None,
            "original_topic": None,
            "original_partition": None,
            "original_offset": None,
            "reopens": None,
        },
    ]


def test_a_record_says_which_failures_it_may_reopen_in_this_group(
    topic: MakeTopic, append: Append, group: str, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    resend = [(REQUEST_ID, b"id-1"), (ATTEMPT, b"2"), (REOPENS, b"1")]
    for headers in (resend, [*resend, (GROUP, group.encode())], [*resend, (GROUP, b"another")], []):
        append(name, headers=headers, timestamp_ms=BEGIN_MS + 1)
    assert [row["reopens"] for row in stage(make_settings(name))] == [1, 1, 0, None]


def test_a_dead_letter_says_why_and_where_it_came_from(
    topic: MakeTopic, append: Append, group: str, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    dead = topic(1, name=f"{name}.{group}.dlq")
    headers = [
        ("DLQ_REASON", b"TIMEOUT"),
        ("ORIGINAL_TOPIC", name.encode()),
        ("ORIGINAL_TOPIC", b"later"),
        ("ORIGINAL_PARTITION", b"3"),
        ("ORIGINAL_OFFSET", b"4294967296"),
        ("DLQ_REASON", b"HANDLER_ERROR"),
        (REQUEST_ID, b"id-1"),
    ]
    append(dead, headers=headers, timestamp_ms=BEGIN_MS + 1)
    append(name, headers=headers, timestamp_ms=BEGIN_MS + 1)
    request, letter = stage(make_settings(name))
    names = ("kind", "request_id", "reason", "original_topic", "original_offset")
    assert [letter[one] for one in names] == ["dlq", "id-1", "HANDLER_ERROR", name, 2**32]
    assert letter["original_partition"] == 3
    # A redriven record keeps these headers: it is a request again.
    assert [request[one] for one in names] == ["request", "id-1", None, None, None]


def test_a_dead_letter_that_was_sent_again_to_be_handled_is_about_the_request_that_failed(
    topic: MakeTopic, append: Append, group: str, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    dead = topic(1, name=f"{name}.{group}.dlq")
    headers = [("DLQ_REQUEST_ID", b"id-1"), (REQUEST_ID, b"id-1.dlq.1")]
    append(dead, headers=headers, timestamp_ms=BEGIN_MS + 1)
    append(name, headers=headers, timestamp_ms=BEGIN_MS + 1)
    request, letter = stage(make_settings(name))
    assert (request["request_id"], letter["request_id"]) == ("id-1.dlq.1", "id-1")


def test_text_that_is_no_request_id_names_no_request_that_failed(
    topic: MakeTopic, append: Append, group: str, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    dead = topic(1, name=f"{name}.{group}.dlq")
    texts = (b"a\x00b", b"has space", b"\xff", "ü".encode(), b"x" * 129, b"", b"a\n")
    for text in texts:
        headers = [("DLQ_REQUEST_ID", b"id-0"), ("DLQ_REQUEST_ID", text), (REQUEST_ID, b"id-1")]
        append(dead, headers=headers, timestamp_ms=BEGIN_MS + 1)
    append(dead, headers=[("DLQ_REQUEST_ID", b"a\x00b")], timestamp_ms=BEGIN_MS + 1)
    ids = [row["request_id"] for row in stage(make_settings(name))]
    assert ids == ["id-1"] * len(texts) + [f"{dead}-0-{len(texts)}-{BEGIN_MS + 1}"]


def test_malformed_records_are_named_by_where_they_stand(
    topic: MakeTopic, append: Append, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    for value in (b"has space", b"\xff", b"x" * 129):
        append(name, headers=[(REQUEST_ID, value)], timestamp_ms=BEGIN_MS + 1)
    append(name, headers=[(REQUEST_ID, b"a"), (REQUEST_ID, b"a")], timestamp_ms=BEGIN_MS + 1)
    found = stage(make_settings(name))
    assert [row["is_malformed"] for row in found] == [True] * 4
    expected = [f"{name}-0-{offset}-{BEGIN_MS + 1}" for offset in range(4)]
    assert [row["request_id"] for row in found] == expected


def test_what_transactions_have_committed_is_staged_and_what_is_open_left_for_the_next_run(
    servers: Servers, topic: MakeTopic, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    with Transactions(servers.kafka) as foreign:
        for number in range(4):
            foreign.write(name, b"{}", b"{}", timestamp_ms=BEGIN_MS + number)
            (foreign.abort if number == 1 else foreign.commit)()
        foreign.write(name, b"{}", b"{}", timestamp_ms=BEGIN_MS + 4)
        settings = make_settings(name)
        limits = freeze(settings, WINDOW, now_ms=BEGIN_MS + DAY_MS)
        assert [one.end for one in limits.partitions] == [12]
        # Every third offset is a mark, the last one included: a hole, and no record is missed.
        assert [row["offset"] for row in stage(settings, limits)] == [0, 1, 6, 7, 9, 10]


def test_all_partitions_are_read_and_empty_ones_leave_no_trace(
    topic: MakeTopic, append: Append, make_settings: MakeSettings, stage: Stage
) -> None:
    full, empty = topic(5), topic(3)
    for number in (0, 2, 4):
        for _ in range(3):
            append(full, partition=number, timestamp_ms=BEGIN_MS + 1)
    found = stage(make_settings(full, empty))
    places = [(row["topic"], row["partition"], row["offset"]) for row in found]
    assert sorted(places) == [(full, p, offset) for p in (0, 2, 4) for offset in range(3)]


def test_where_there_is_nothing_an_empty_folder_with_all_columns_is_left(
    topic: MakeTopic, make_settings: MakeSettings, stage: Stage, spark: SparkSession, tmp_path: Path
) -> None:
    assert stage(make_settings(topic(1))) == []
    written = spark.read.parquet(str(tmp_path / "records")).schema
    expected = spark.createDataFrame([], SCHEMA).schema
    assert [(one.name, one.dataType) for one in written] == [
        (one.name, one.dataType) for one in expected
    ]


def test_what_comes_after_the_freeze_is_left_for_the_next_run(
    topic: MakeTopic, append: Append, make_settings: MakeSettings, stage: Stage
) -> None:
    name = topic(1)
    append(name, timestamp_ms=BEGIN_MS + 1)
    settings = make_settings(name)
    limits = freeze(settings, WINDOW, now_ms=BEGIN_MS + DAY_MS)
    append(name, timestamp_ms=BEGIN_MS + 2)
    assert [row["offset"] for row in stage(settings, limits)] == [0]


def test_spark_lets_go_of_its_consumers_and_of_what_they_fetched_ahead(
    topic: MakeTopic,
    append: Append,
    make_settings: MakeSettings,
    stage: Stage,
    spark: SparkSession,
    servers: Servers,
) -> None:
    name = topic(1)
    append(name, b"{}", timestamp_ms=BEGIN_MS)
    java = java_of(spark)
    with ThreadPoolExecutor(1) as threads:
        # Looked for meanwhile: behind it a machine that stands still for five seconds finds none.
        connected = threads.submit(
            eventually, lambda: has_consumers(java, servers), timeout_s=STAGED_WITHIN_S
        )
        assert stage(make_settings(name))
        assert connected.result()
    # Spark keeps them for five minutes, unless it is told otherwise.
    eventually(lambda: not has_consumers(java, servers), timeout_s=HANG_S)


def test_what_retention_takes_after_the_freeze_ends_with_3_and_is_not_passed_over(
    topic: MakeTopic,
    append: Append,
    admin: KafkaAdminClient,
    make_settings: MakeSettings,
    stage: Stage,
) -> None:
    name = topic(1)
    for _ in range(4):
        append(name, timestamp_ms=BEGIN_MS + 1)
    settings = make_settings(name)
    limits = freeze(settings, WINDOW, now_ms=BEGIN_MS + DAY_MS)
    admin.delete_records({TopicPartition(name, 0): 2})
    with pytest.raises(NotAvailable, match="records cannot be read from Kafka") as raised:
        stage(settings, limits)
    assert "\n" not in str(raised.value)


def test_a_broker_that_is_away_ends_with_3_and_one_sentence(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spark_audit.stage.stage_records.ANSWER_LIMIT_MS", 1500)
    address = f"{HOST}:{free_port()}"
    settings = KafkaSection(bootstrap_servers=address, group="unused")
    with pytest.raises(NotAvailable, match=address) as raised:
        stage_records(spark, settings, manifest(partition()), tmp_path / "records")
    assert "\n" not in str(raised.value)
