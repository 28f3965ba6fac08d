"""`onceward-dlq list`, `show` and `export` on letters that a real worker has written."""

import json
import shlex
from pathlib import Path
from typing import Any

import duckdb

from feedback.errors import ExitCode
from onceward.servers.ports import HOST, free_port
from tests.consumer.dlq.conftest import Dlq, Done
from tests.consumer.dlq.letters import of_group, write
from tests.consumer.dlq.samples import headers, record
from tests.consumer.features.dead_letters.box import Box
from tests.consumer.features.dead_letters.conftest import MakeBox

HOSTILE = "\x1b[2J\x1b[31mowned\x07 [bold]x[/bold] \u202eexe.\x9b5m\u2028"


def lines(done: Done) -> list[dict[str, Any]]:
    """Return what a command printed as JSON lines."""
    assert done.code == ExitCode.FINE, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_harmless(text: str) -> None:
    """Assert that a terminal which is shown this does nothing but show it."""
    bad = [one for one in text if not (one.isprintable() or one == "\n")]
    assert not bad, ascii(bad)


def stand_still(box: Box) -> Path:
    """End the worker; return the settings."""
    for worker in box.stage.workers:
        assert worker.stop() == 0
    return box.stage.config()


def test_failures_are_listed_shown_and_exported(make_box: MakeBox, dlq: Dlq) -> None:
    box = make_box("work", "failing", "refusing")
    stage = box.stage
    stage.start()
    topics = stage.topics
    failed = stage.client.send({"n": 1}, topic=topics["failing"], key="card-1").request_id
    refused = stage.client.send({"n": 2}, topic=topics["refusing"]).request_id
    malformed = stage.produce(b"\xff\x00", headers=[("onceward-attempt", b"x")]).coordinates_id
    doubtful = stage.client.send({"do": "doubt"}, topic=topics["work"]).request_id
    good = stage.client.send({"answer": 1}, topic=topics["work"]).request_id
    box.closed([failed, refused, malformed])
    stage.final(doubtful)
    stage.final(good)
    config = stand_still(box)

    *letters, last = lines(dlq(config, "list", "--json"))
    found = {one["request_id"]: one for one in letters}
    assert set(found) == {failed, refused, malformed}
    assert {one["state"] for one in letters} == {"open"}
    assert found[failed]["exception_class"].endswith("BankDown")
    assert (found[malformed]["stage"], found[malformed]["attempts"]) == ("receive", 0)
    summary = last["summary"]
    assert summary["reasons"] == {"CARD_EXPIRED": 1, "HANDLER_ERROR": 1, "INVALID_MESSAGE": 1}
    assert summary["topics"] == dict.fromkeys(topics.values(), 1)
    assert sum(bar["letters"] for bar in summary["histogram"]) == 3
    assert [one["failed_at"] for one in letters] == sorted(
        (one["failed_at"] for one in letters), reverse=True
    )

    page = dlq(config, "list").stdout
    assert "3 dead letters" in page and "CARD_EXPIRED" in page and refused in page
    assert_harmless(page)
    filtered = lines(dlq(config, "list", "--json", "--class", "BankDown", "--key", "card-1"))
    assert [one.get("request_id") for one in filtered[:-1]] == [failed]
    assert lines(dlq(config, "list", "--json", "--limit", "0"))[0]["summary"]["shown"] == 3

    (case,) = lines(dlq(config, "show", failed, "--json", "--value"))
    assert (case["row"]["state"], case["status"]["state"]) == ("FAILED", "FAILED")
    assert case["state"] == "open"
    (shown,) = case["letters"]
    assert json.loads(shown["value"]) == {"n": 1} and shown["key"] == "card-1"
    assert {"name": "DLQ_REASON", "value": "HANDLER_ERROR"} in shown["headers"]
    assert shown["stacktrace"]
    page = dlq(config, "show", failed, "--value").stdout
    for text in ("BankDown", "─ stack ─", '"n": 1', "DLQ_REASON", "card-1", "FAILED"):
        assert text in page
    assert_harmless(page)
    assert '"n": 1' not in (hidden := dlq(config, "show", failed)).stdout
    assert f"onceward-dlq redrive --config {config} {failed}" in hidden.stdout.splitlines()
    assert "value" not in lines(dlq(config, "show", failed, "--json"))[0]
    assert "ff 00" in dlq(config, "show", malformed, "--value").stdout

    (case,) = lines(dlq(config, "show", doubtful, "--json"))
    assert (case["letters"], case["row"]["state"]) == ([], "IN_DOUBT")
    assert "IN_DOUBT" in dlq(config, "show", doubtful).stdout
    assert summary["open_doubts"] == 1
    source = f"group {stage.group}, journal {stage.journal_url}\n"
    for command in (["list"], ["list", "--state", "in_doubt"], ["show", failed], ["redrives"]):
        assert dlq(config, *command).stderr == source, command
    assert (summary["group"], summary["journal"]) == (stage.group, stage.journal_url)
    assert dlq(config, "redrives").stdout == "no redrive was begun\n"
    assert "1 open doubt: see list --state in_doubt" in dlq(config, "list").stdout
    topic = ("--topic", topics["work"])
    doubt, last = lines(dlq(config, "list", "--state", "in_doubt", "--json", *topic))
    assert (doubt["request_id"], last["summary"]["states"]) == (doubtful, {"in_doubt": 1})
    page = dlq(config, "list", "--state", "in_doubt").stdout
    assert "1 open doubt," in page
    pasted = f"onceward-dlq resolve --config {config} --failed --run 1 --because '' {doubtful}"
    assert pasted in page.splitlines()[-1]
    _, *words = shlex.split(pasted)
    unsaid = dlq(config, *words)
    assert unsaid.code == ExitCode.USAGE and "say it in a few words" in unsaid.stderr
    nobody = dlq(config, "show", "nobody")
    assert nobody.code == ExitCode.BAD_ANSWER and "is found with --dlq" in nobody.stderr

    target = config.parent / "letters.parquet"
    assert dlq(config, "export", str(target)).code == ExitCode.FINE
    rows = duckdb.sql(
        "SELECT request_id, value, value_encoding, typeof(failed_at) "
        f"FROM read_parquet('{target}') ORDER BY reason"
    ).fetchall()
    kind = "TIMESTAMP WITH TIME ZONE"
    assert rows == [
        (refused, '{"n":2}', "utf-8", kind),
        (failed, '{"n":1}', "utf-8", kind),
        (malformed, "/wA=", "base64", kind),
    ]
    exported = lines(dlq(config, "export", "-", "--reason", "CARD_EXPIRED"))
    assert [one["request_id"] for one in exported] == [refused]


def test_what_went_on_is_hidden_and_a_letter_written_twice_counts_once(
    make_box: MakeBox, dlq: Dlq
) -> None:
    box = make_box("work", "refusing")
    stage = box.stage
    stage.start()
    topic = stage.topics["refusing"]
    ids = [stage.client.send({"n": n}, topic=topic).request_id for n in range(4)]
    box.closed(ids)
    config = stand_still(box)
    twice = next(one for one in box.letters("refusing") if b'"n":3' in (one.value or b""))
    write(box.kafka, box.name("refusing"), [twice], age_ms=0)
    row = f"UPDATE onceward_request SET %s WHERE request_id = '{ids[0]}'"
    stage.execute(row % "state = 'SUCCEEDED'")
    stage.execute(
        'INSERT INTO onceward_action ("group", request_id, action, "by", at, generation) '
        f"VALUES ('{stage.group}', '{ids[1]}', 'discard', 'ann@host', 5, 1)"
    )
    *letters, last = lines(dlq(config, "list", "--json"))
    assert sorted(one["request_id"] for one in letters) == sorted(ids[2:])
    assert last["summary"]["states"] == {"open": 2, "repaired": 1, "discarded": 1}
    *letters, last = lines(dlq(config, "list", "--json", "--all"))
    assert len(letters) == last["summary"]["shown"] == 4
    *letters, _ = lines(dlq(config, "list", "--json", "--state", "discarded"))
    assert [one["request_id"] for one in letters] == [ids[1]]
    (case,) = lines(dlq(config, "show", ids[1], "--json"))
    assert case["state"] == "discarded" and case["actions"][0]["by"] == "ann@host"
    assert "ann@host" in dlq(config, "show", ids[1]).stdout


def test_nothing_hostile_reaches_a_terminal(make_box: MakeBox, dlq: Dlq) -> None:
    box = make_box("work")
    box.make()
    stage = box.stage
    name = box.name()
    bad = of_group(
        stage.group,
        "hostile",
        DLQ_REASON=HOSTILE,
        DLQ_EXCEPTION_CLASS=HOSTILE,
        DLQ_EXCEPTION_MESSAGE=HOSTILE,
        DLQ_STACKTRACE=HOSTILE,
        ORIGINAL_TOPIC=HOSTILE,
        DLQ_REDRIVE_COUNT="1",
        DLQ_REDRIVE_BY=HOSTILE,
        DLQ_FAILED_AT="9" * 18,
    )[0].record
    more = ((HOSTILE, HOSTILE.encode()), ("binary", b"\xff\x1b[2J"))
    record = bad._replace(key=HOSTILE.encode(), value=HOSTILE.encode(), headers=bad.headers + more)
    write(box.kafka, name, [record])
    config = stage.config()
    for arguments in (["list"], ["list", "--json"], ["show", "hostile"], ["export", "-"]):
        done = dlq(config, *arguments)
        assert done.code == ExitCode.FINE, done.stderr
        assert "owned" in done.stdout
        assert_harmless(done.stdout)
    assert "[bold]" in dlq(config, "show", "hostile").stdout


def test_what_is_missing_or_wrong_is_said_in_one_sentence(make_box: MakeBox, dlq: Dlq) -> None:
    stage = make_box("work").stage
    config = stage.config()
    away = stage.config(kafka={"bootstrap_servers": f"{HOST}:{free_port()}"})
    for code, arguments in (
        (ExitCode.USAGE, ["list", "--since", "yesterday"]),
        (ExitCode.USAGE, ["list", "--since", "1h", "--until", "2h"]),
        (ExitCode.USAGE, ["list", "--state", "dead"]),
        (ExitCode.USAGE, ["list", "--state", "in_doubt", "--state", "open"]),
        (ExitCode.USAGE, ["list", "--state", "in_doubt", "--dlq", "other"]),
        (ExitCode.USAGE, ["show", "two words"]),
        (ExitCode.USAGE, ["export", "letters.csv"]),
        (ExitCode.NOT_AVAILABLE, ["export", "/no/such/folder/letters.jsonl"]),
        (ExitCode.NOT_AVAILABLE, ["list", "--topic", "no-topic"]),
    ):
        done = dlq(config, *arguments)
        assert (done.code, done.stdout) == (code, ""), (arguments, done)
        assert "Error" in done.stderr or done.stderr.startswith("error: ")
    assert lines(dlq(config, "list", "--json"))[0]["summary"]["shown"] == 0
    assert "0 dead letters" in dlq(config, "list").stdout
    done = dlq(away, "list")
    assert done.code == ExitCode.NOT_AVAILABLE and "Kafka at" in done.stderr


def test_a_status_that_cannot_be_asked_for_hides_nothing_else(make_box: MakeBox, dlq: Dlq) -> None:
    box = make_box("work")
    stage = box.stage
    stage.start()
    rejected = stage.client.send({"do": "reject"}, topic=stage.topics["work"]).request_id
    box.closed([rejected])
    for worker in stage.workers:
        assert worker.stop() == 0
    config = stage.config(redis={"url": f"redis://{HOST}:{free_port()}/0"})
    (case,) = lines(dlq(config, "show", rejected, "--json"))
    assert case["status"] is None and case["status_away"]
    assert case["row"]["state"] == "FAILED" and len(case["letters"]) == 1
    assert dlq(config, "show", rejected).code == ExitCode.FINE


def test_letters_of_others_need_no_journal(make_box: MakeBox, dlq: Dlq, tmp_path: Path) -> None:
    box = make_box("work")
    box.make()
    said = (*headers(), ("x", b"y"))
    write(box.kafka, box.name(), [record(said)])
    config = box.stage.config(journal={"url": f"sqlite:///{tmp_path}/none.db"})
    assert dlq(config, "list", "--dlq", box.name()).code == ExitCode.USAGE
    done = dlq(config, "list", "--dlq", box.name(), "--no-journal", "--json")
    assert lines(done)[0]["state"] == "unknown"
