"""`onceward-client` called wrongly, without its servers, or shown hostile text."""

import json
import re

import pytest

from feedback.status import State
from tests.producer_client.acting import Worker
from tests.producer_client.programs import Run

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]")


def test_what_an_attacker_wrote_never_reaches_the_terminal_raw(call: Run, worker: Worker) -> None:
    hostile = "\x1b[31mred\x07\x9b2J\u202e"
    call("send", "{}", "--id", "r1")
    worker.tell("r1", State.FAILED, code="C", message=hostile, result=json.dumps(hostile))
    told = call("status", "r1")
    assert "\\x1b[31mred\\x07" in told.stdout
    asked = call("status", "r1", f"{hostile}\nr1  SUCCEEDED")
    named = call("send", "{}", "--topic", hostile)
    assert (asked.code, asked.stdout) == (2, "")
    assert "request id" in asked.stderr
    assert (named.code, "topic" in named.stderr) == (2, True)
    for done in (told, call("status", "r1", "--json"), asked, named):
        assert not CONTROL.search(done.stdout + done.stderr)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["send", "1", "--file", "-"], "PAYLOAD and --file contradict"),
        (["send", "--id", "r1"], "single PAYLOAD"),
        (["send", "--file", "/absent.jsonl"], "absent.jsonl"),
        (["send", "1", "--id", "a b"], "request id of 3 characters"),
        (["send", "1", "--deadline", "inf"], "deadline"),
        (["send", "--text", "\udcff"], "UTF-8"),
        (["send", '{"amount": 5'], "PAYLOAD is no JSON: Expecting ',' delimiter (character 13)"),
        (["send", "hello"], "To send text, add --text"),
        (["send", "[NaN]"], "a number that JSON cannot hold"),
        (["send", "--text", "--file", "-"], "single PAYLOAD"),
        (["send", "1", "--config", "/absent.toml"], "absent.toml"),
        (["status", "a\udcff"], "request id of 2 characters"),
        (["wait", ""], "request id of 0 characters"),
        (["resend", "--log-level", "loud"], "'loud' is not one of"),
        (["relay", "--log-level", "loud"], "'loud' is not one of"),
        (["fetch"], "fetch"),
    ],
)
def test_a_wrong_call_is_exit_code_two_and_says_what_is_wrong(
    call: Run, arguments: list[str], named: str
) -> None:
    done = call(*arguments)
    assert (done.code, done.stdout) == (2, "")
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_all_wrong_settings_are_named_at_once(call: Run) -> None:
    done = call("send", "1", ONCEWARD_CLIENT__SEND_TIMEOUT_S="-1", ONCEWARD_REDIS__URL="http://a")
    assert done.code == 2
    assert "send_timeout_s" in done.stderr
    assert "redis://" in done.stderr


def test_a_server_that_is_away_is_exit_code_three_and_named(
    run: Run, call: Run, refusing: str
) -> None:
    soon = {"ONCEWARD_CLIENT__SEND_TIMEOUT_S": "0.5"}
    no_kafka = soon | {"ONCEWARD_KAFKA__BOOTSTRAP_SERVERS": refusing}
    no_redis = {"ONCEWARD_REDIS__URL": f"redis://{refusing}/0"}
    for done, server in (
        (run("send", "1", **no_kafka), "Kafka"),
        (call("send", "1", **no_redis), "Redis"),
        (call("send", "1", "--topic", "nowhere", **soon), "nowhere"),
        (call("send", stdin="1\n2\n", **no_kafka), "Kafka"),
        (call("status", "r1", **no_redis), "Redis"),
        (call("wait", "r1", "--timeout", "0.1", **no_redis), "Redis"),
    ):
        assert (done.code, done.stdout) == (3, "")
        assert server in done.stderr
        told = [line for line in done.stderr.splitlines() if line != "2 not sent"]
        assert all(line.startswith(("error: ", "more: ")) for line in told)
