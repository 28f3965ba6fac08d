"""`export --state in_doubt`: doubts without a letter too, with what is still kept of them."""

import json
from pathlib import Path
from typing import Any

import duckdb

from consumer.dlq.exporting import COLUMNS
from feedback.errors import ExitCode
from onceward.servers.ports import HOST, free_port
from tests.consumer.dlq.conftest import Dlq
from tests.consumer.features.dead_letters.conftest import MakeBox

DOUBT = ("--state", "in_doubt")


def exported(dlq: Dlq, config: Path, *more: str) -> dict[str, dict[str, Any]]:
    done = dlq(config, "export", "-", *DOUBT, *more)
    assert done.code == ExitCode.FINE, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert all(list(one) == list(COLUMNS) for one in rows)
    return {one["request_id"]: one for one in rows}


def test_doubts_are_exported_from_their_rows_and_the_payload_that_is_kept(
    make_box: MakeBox, dlq: Dlq, tmp_path: Path
) -> None:
    box = make_box("work", "failing")
    stage = box.stage
    stage.start()
    topic = stage.topics["work"]
    ours = stage.client.send({"do": "doubt"}, topic=topic, key="card-1").request_id
    theirs = stage.produce(b'{"do": "doubt"}', headers=[("theirs", b"x")]).coordinates_id
    failed = stage.client.send({"n": 1}, topic=stage.topics["failing"]).request_id
    stage.final(ours)
    stage.final(theirs)
    box.closed([failed])
    for worker in stage.workers:
        assert worker.stop() == 0
    config = stage.config()

    found = exported(dlq, config)
    assert set(found) == {ours, theirs}
    assert found[ours]["value"] == '{"do":"doubt"}' and found[ours]["key"] == "card-1"
    assert found[theirs]["value"] == '{"do": "doubt"}'
    assert {"name": "theirs", "value": "x"} in json.loads(found[theirs]["headers"])
    row = stage.row(ours)
    assert row is not None
    for one in found.values():
        assert one["state"] == "in_doubt" and one["topic"] == topic and one["attempts"] == 1
        assert (one["dlq_topic"], one["dialect"], one["redrive_count"]) == (None, None, None)
        assert one["group"] == stage.group
    assert found[ours]["failed_at"] == row["finished_at"]
    assert found[ours]["exception_message"] == row["message"]
    assert set(exported(dlq, config, "--key", "card-1")) == {ours}

    target = tmp_path / "doubts.parquet"
    assert dlq(config, "export", str(target), *DOUBT).code == ExitCode.FINE
    columns = "count(*), count(value), count(dlq_offset), count(topic)"
    rows = duckdb.sql(f"SELECT {columns} FROM read_parquet('{target}')").fetchall()
    assert rows == [(2, 2, 0, 2)]
    assert "2 open doubts are not among them" in dlq(config, "export", "-").stderr

    nowhere = f"{HOST}:{free_port()}"
    away = stage.config(kafka={"bootstrap_servers": nowhere}, redis={"url": f"redis://{nowhere}/0"})
    done = dlq(away, "export", "-", *DOUBT)
    assert done.code == ExitCode.FINE and "values are null: " in done.stderr
    assert "Kafka at" in done.stderr and "Redis" in done.stderr
    alone = {one["request_id"]: one for one in map(json.loads, done.stdout.splitlines())}
    assert set(alone) == {ours, theirs}
    assert (alone[ours]["value"], alone[ours]["headers"]) == (None, None)
    assert alone[ours]["key"] == "card-1"


def test_options_that_are_about_letters_are_refused(make_box: MakeBox, dlq: Dlq) -> None:
    config = make_box("work").stage.config()
    for more in (["--state", "open"], ["--dlq", "x"], ["--class", "X"]):
        done = dlq(config, "export", "-", *DOUBT, *more)
        assert (done.code, done.stdout) == (ExitCode.USAGE, ""), more
