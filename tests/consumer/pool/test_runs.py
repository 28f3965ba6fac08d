"""What a handler does becomes an outcome."""

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from consumer.pool import Outcome, Started
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import job


def test_a_plain_handler_gets_its_record_and_its_result_comes_back(make_pool: MakePool) -> None:
    driven = make_pool()
    headers = (("traceparent", b"00-1"), ("null", None), ("traceparent", b"00-2"))
    sent = job("echo", "é\n", key=b"k", headers=headers, attempt=2, generation=5)
    result = json.loads(driven.run([sent])["r1"].result or "")
    assert result["value"] == '"\\u00e9\\n"'
    assert result["key"] == "k"
    assert result["headers"] == [["traceparent", "00-1"], ["null", None], ["traceparent", "00-2"]]
    assert result["place"] == ["echo", 3, 2**40, 1_700_000_000_000]
    assert result["run"] == ["r1", 5, 2, 1_700_003_600_000]
    assert driven.told(Started) == [Started("r1", 5)]


def test_null_and_empty_values_stay_different(make_pool: MakePool) -> None:
    driven = make_pool(slots_per_process=2)
    null = job("echo", request_id="null", value=None, key=None)
    empty = job("echo", request_id="empty", value=b"", key=b"")
    outcomes = driven.run([null, empty])
    results = {name: json.loads(outcomes[name].result or "") for name in outcomes}
    assert (results["null"]["value"], results["null"]["key"]) == (None, None)
    assert (results["empty"]["value"], results["empty"]["key"]) == ("", "")


def test_a_coroutine_handler_is_awaited(make_pool: MakePool) -> None:
    outcome = make_pool().run([job("coroutine", {"amount": 5})])["r1"]
    assert outcome == Outcome(State.SUCCEEDED, result='{"amount":5}')


@pytest.mark.parametrize("topic", ["sys-exit", "sys-exit-coroutine", "sys-exit-task"])
def test_sys_exit_ends_the_run_and_not_the_child(make_pool: MakePool, topic: str) -> None:
    driven = make_pool()
    pid = driven.pids(1)[0]
    outcome = driven.run([job(topic)])["r1"]
    assert (outcome.state, outcome.code) == (State.IN_DOUBT, "HANDLER_ERROR")
    assert outcome.message == "SystemExit: 1"
    after = driven.run([job("echo", request_id="r2")])["r2"]
    assert json.loads(after.result or "")["pid"] == pid
    assert driven.run([job("coroutine", 1, request_id="r3")])["r3"].result == "1"


def test_a_coroutine_that_cancels_itself_is_in_doubt(make_pool: MakePool) -> None:
    outcome = make_pool().run([job("cancel-itself")])["r1"]
    assert (outcome.state, outcome.message) == (State.IN_DOUBT, "CancelledError")


def test_five_megabytes_of_prints_do_not_disturb_the_protocol(
    make_pool: MakePool, capfd: pytest.CaptureFixture[str]
) -> None:
    outcome = make_pool().run([job("print", 5 * 1024)])["r1"]
    assert outcome.result == '"printed"'
    printed = capfd.readouterr()
    assert len(printed.out) == 5 * 2**20
    assert "y" * 1024 in printed.err


@pytest.mark.parametrize("topic", ["log", "log-coroutine"])
def test_a_line_that_a_handler_logs_names_its_request(
    make_pool: MakePool, capfd: pytest.CaptureFixture[str], topic: str
) -> None:
    driven = make_pool(slots_per_process=2)
    driven.run([job(topic, 1, request_id="a", attempt=2), job(topic, 2, request_id="b")])
    lines = [one for one in capfd.readouterr().err.splitlines() if "charged" in one]
    found = sorted((json.loads(one) for one in lines), key=lambda one: str(one["request_id"]))
    assert [(one["request_id"], one["amount"], one["attempt"]) for one in found] == [
        ("a", 1, 2),
        ("b", 2, 1),
    ]
    assert {(one["topic"], one["generation"]) for one in found} == {(topic, 1)}


@pytest.mark.parametrize(
    ("kind", "code"),
    [("set", "RESULT_NOT_JSON"), ("nan", "RESULT_NOT_JSON"), ("large", "RESULT_TOO_LARGE")],
)
def test_work_that_is_done_succeeds_without_a_result_that_cannot_be_kept(
    make_pool: MakePool, kind: str, code: str
) -> None:
    outcome = make_pool().run([job("return", kind)])["r1"]
    assert (outcome.state, outcome.code, outcome.result) == (State.SUCCEEDED, code, None)


def test_what_a_handler_raises_becomes_its_outcome_and_its_stack_goes_to_the_log(
    make_pool: MakePool, capfd: pytest.CaptureFixture[str]
) -> None:
    kinds = ["rejected", "in-doubt", "retry", "other", "memory"]
    driven = make_pool(slots_per_process=5)
    outcomes = driven.run([job("raise", kind, request_id=kind) for kind in kinds])
    rejected = Outcome(State.FAILED, code="CARD_EXPIRED", message="the card has expired")
    raised = outcomes["rejected"].raised
    assert replace(outcomes["rejected"], raised=None) == rejected
    assert raised is not None and raised.error_class.endswith(".Rejected")
    assert "in raise_what" in raised.stack
    assert outcomes["in-doubt"].raised is None
    assert outcomes["in-doubt"] == Outcome(State.IN_DOUBT, message="the bank did not answer")
    assert (outcomes["retry"].code, outcomes["retry"].resend) == ("HANDLER_ERROR", True)
    assert (outcomes["other"].state, outcomes["other"].resend) == (State.FAILED, False)
    assert (outcomes["other"].message or "").startswith("ValueError: line one line two zzz")
    assert len(outcomes["other"].message or "") == len("ValueError: ") + 500
    assert outcomes["memory"].message == "MemoryError"
    logged = capfd.readouterr().err
    assert "handlers_in_child.py" in logged and "onceward.child" in logged


def test_an_error_of_an_external_handler_is_in_doubt(make_pool: MakePool) -> None:
    outcome = make_pool().run([job("raise-external")])["r1"]
    assert (outcome.state, outcome.code) == (State.IN_DOUBT, "HANDLER_ERROR")


def test_a_coroutine_that_a_plain_handler_returns_is_no_success(make_pool: MakePool) -> None:
    outcome = make_pool().run([job("forgotten-await")])["r1"]
    assert (outcome.state, outcome.code) == (State.IN_DOUBT, "HANDLER_ERROR")


def test_a_job_whose_topic_has_no_handler_has_not_run(make_pool: MakePool) -> None:
    outcome = make_pool().run([job("unheard-of")])["r1"]
    assert (outcome.state, outcome.resend) == (State.FAILED, True)


def test_the_idempotency_key_is_stable_until_a_run_is_void(make_pool: MakePool) -> None:
    driven = make_pool(slots_per_process=3)
    again = job("echo", request_id="r1", generation=2)
    first = json.loads(driven.run([job("echo")])["r1"].result or "")
    driven.events.clear()
    second = json.loads(driven.run([again])["r1"].result or "")
    driven.events.clear()
    voided = json.loads(driven.run([job("echo", voids=1)])["r1"].result or "")
    keys = [each["idempotency_key"] for each in (first, second, voided)]
    assert keys[0] == keys[1] != keys[2]
    assert all(key.startswith("ow-") and len(key) == 43 for key in keys)


def test_a_child_holds_no_more_memory_than_an_interpreter_and_its_pool(
    make_pool: MakePool,
) -> None:
    driven = make_pool(handlers=("tests.consumer.pool.small_handlers",))
    driven.run([job("noop")])
    pid = driven.pids(1)[0]
    resident_pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    assert resident_pages * os.sysconf("SC_PAGE_SIZE") < 24 * 2**20
