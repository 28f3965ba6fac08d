"""`onceward-client` as it is run: its output, its exit codes, and what a terminal is shown."""

import contextlib
import io
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from feedback.clock import monotonic_s
from feedback.records.envelope import Record, decode_headers
from feedback.status import State
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.programs import LIMIT_S, Run

Records = Callable[[], list[Record]]


def test_one_payload_is_sent_and_its_id_printed(run: Run, worker: Worker, records: Records) -> None:
    done = run("send", '{"amount": 5}', "--key", "k", "--id", "r1", "--deadline", "60")
    assert (done.code, done.stdout, done.stderr) == (0, "r1\n", "")
    (record,) = records()
    assert (record.key, record.value) == (b"k", b'{"amount": 5}')
    assert decode_headers(record).request_id == "r1"
    assert worker.store.read("r1").state is State.PENDING


def test_a_file_is_sent_line_by_line_with_a_summary(
    call: Run, records: Records, tmp_path: Path
) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"value": 1, "request_id": "r1"}\n\n{"value": 2, "request_id": "r2"}\n3\n')
    done = call("send", "--file", str(path), "--json")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(line["sent"], line["unknown"], line["error"]) for line in lines] == [
        (True, False, None)
    ] * 3
    assert [line["request_id"] for line in lines[:2]] == ["r1", "r2"]
    assert (done.code, done.stderr) == (0, "3 sent\n")
    assert [record.value for record in records()] == [b"1", b"2", b"3"]


def test_standard_input_is_sent_at_the_rate_asked_for(call: Run, records: Records) -> None:
    began_s = monotonic_s()
    done = call("send", "--rate", "20", stdin="1\n" * 30)
    assert monotonic_s() - began_s > 1.4
    assert (done.code, done.stdout, done.stderr) == (0, "", "30 sent\n")
    assert len(records()) == 30
    assert call("send", "--file", "-", stdin="").stderr == "nothing to send\n"


def test_a_line_is_sent_while_the_next_one_is_awaited(
    environment: dict[str, str], records: Records
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "producer_client", "send", "--json"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
        bufsize=0,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        for n in (1, 2):
            process.stdin.write(b"%d\n" % n)
            assert json.loads(process.stdout.readline())["sent"]
            assert len(records()) == n
        process.stdin.close()
        assert process.wait(LIMIT_S) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_what_stands_before_a_bad_line_is_sent_and_the_line_is_named(
    call: Run, records: Records
) -> None:
    done = call("send", stdin="1\n2\n4111111111111111 secret\n3\n")
    assert (done.code, done.stdout) == (2, "")
    assert done.stderr.splitlines()[:2] == ["2 sent", "error: line 3: Extra data (character 18)"]
    assert [record.value for record in records()] == [b"1", b"2"]


def test_text_is_sent_as_it_is_when_it_is_said_to_be_text(call: Run, records: Records) -> None:
    assert call("send", "--text", '{"amount": 5').code == 0
    assert [record.value for record in records()] == [b'{"amount": 5']


def test_lines_that_cannot_be_sent_are_told_beside_those_that_were(
    call: Run, records: Records
) -> None:
    call("send", "1", "--id", "r1")
    lines = '{"value": 2, "request_id": "r1"}\n{"value": 3, "request_id": "a\\u001b"}\n4\n'
    done = call("send", stdin=lines)
    assert done.code == 2
    mismatch, invalid, summary, *explained = done.stderr.splitlines()
    assert mismatch.startswith("error: request id r1 is already taken by another payload")
    assert invalid.startswith("error: request id of 2 characters")
    assert summary == "2 not sent, 1 sent"
    assert explained == [
        "more: onceward help error-invalidmessage",
        "more: onceward help error-payloadmismatch",
    ]
    assert [record.value for record in records()] == [b"1", b"4"]


def test_a_payload_that_is_waited_for_prints_how_it_ended(
    run: Run, call: Run, worker: Worker, at_once: Callable[..., Future[Any]]
) -> None:
    running = at_once(run, "send", "{}", "--id", "r1", "--wait", "30", "--json")
    eventually(lambda: worker.store.read("r1").state is State.PENDING)
    worker.tell("r1", State.SUCCEEDED, result='{"paid":5}')
    done = running.result()
    assert done.code == 0
    told = json.loads(done.stdout)
    assert (told["request_id"], told["status"], told["result"]) == ("r1", "SUCCEEDED", {"paid": 5})
    call("send", "{}", "--id", "r2")
    worker.tell("r2", State.FAILED, code="NO_MONEY", message="none left")
    done = run("wait", "r2")
    assert (done.code, done.stdout) == (1, "r2  FAILED  NO_MONEY  none left\n")


def test_statuses_are_printed_and_a_bad_one_is_exit_code_one(call: Run, worker: Worker) -> None:
    call("send", stdin='{"value": 1, "request_id": "r1"}\n{"value": 2, "request_id": "r2"}\n')
    done = call("status", "r1", "r2")
    assert (done.code, done.stdout) == (0, "r1  PENDING\nr2  PENDING\n")
    worker.tell("r1", State.IN_DOUBT)
    done = call("status", "r1", "nobody", "--json")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(one["request_id"], one["status"]) for one in told] == [
        ("r1", "IN_DOUBT"),
        ("nobody", "UNKNOWN"),
    ]
    assert done.code == 1


def test_a_wait_in_vain_is_exit_code_one_and_says_how_it_stands(call: Run) -> None:
    done = call("wait", "nobody", "--timeout", "0.2", "--no-resend")
    assert (done.code, done.stdout) == (1, "")
    said, more = done.stderr.splitlines()
    assert re.fullmatch(r"error: request nobody is still UNKNOWN after 0\.\d s", said)
    assert more == "more: onceward help error-waittimeout"


def test_watching_alone_ends_at_a_request_that_stays_lost(
    call: Run, worker: Worker, environment: dict[str, str]
) -> None:
    assert call("send", "1", "--id", "r1").code == 0
    worker.accept("r1")
    worker.die()
    environment["ONCEWARD_CLIENT__RESEND_AFTER_S"] = "1.5"
    done = call("wait", "r1", "--no-resend")
    assert (done.code, done.stdout) == (1, "")
    assert done.stderr.startswith("error: request r1 is still LOST after ")


def test_help_has_examples_and_the_version_is_told(call: Run) -> None:
    helped = call("send", "--help")
    assert helped.code == 0
    assert "onceward-client send --file payments.jsonl --rate 200" in helped.stdout
    assert re.search(r"version \d+\.\d+\.\d+", call("--version").stdout)


def test_a_progress_bar_is_shown_on_a_terminal_only(environment: dict[str, str], run: Run) -> None:
    assert run("send", stdin="1\n" * 5).stderr == "5 sent\n"
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0) as terminal:  # noqa: PTH123
        process = subprocess.Popen(
            [sys.executable, "-m", "producer_client", "send", "--rate", "20"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=theirs,
            env=environment | {"TERM": "xterm", "COLUMNS": "80"},
        )
        os.close(theirs)
        output, _ = process.communicate(b"1\n" * 20, timeout=LIMIT_S)
        shown = _all_of(terminal)
    assert (process.returncode, output) == (0, b"")
    assert "sending" in shown
    assert "20 sent" in shown


def _all_of(terminal: io.FileIO) -> str:
    shown = b""
    # The end of a terminal that nobody holds any more is an error on Linux.
    with contextlib.suppress(OSError):
        while part := terminal.read(65_536):
            shown += part
    return shown.decode()
