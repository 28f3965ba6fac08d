"""Asking the counterparty about a run in doubt, in a slot, in the place of a run."""

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from consumer.handlers.checks.handler_check import check
from consumer.handlers.declaration import Handler, HandlerDefinitionError, InDoubtPolicy
from consumer.pool import Outcome
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import Driven, fifo, job

HANDLERS = "tests.consumer.pool.asking_handlers"
UNDERSTOOD = "return Happened(...), Voided() or Unknown(...)"


@pytest.fixture
def asked(make_pool: MakePool) -> Driven:
    """Return a pool whose handlers have queries."""
    return make_pool(handlers=(HANDLERS,), slots_per_process=2)


def _ask(driven: Driven, topic: str, body: object = None, **changes: Any) -> Outcome:
    return driven.run([job(topic, body, asks=True, **changes)])["r1"]


def _unknown(message: str | None) -> Outcome:
    return Outcome(State.IN_DOUBT, code="QUERY_UNKNOWN", message=message)


@pytest.mark.parametrize("topic", ["plain", "on-loop"])
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ("happened", Outcome(State.SUCCEEDED, result='{"charge":7}')),
        ("happened-nothing", Outcome(State.SUCCEEDED, result="null")),
        ("happened-word", Outcome(State.SUCCEEDED, result="null")),
        ("happened-pair", Outcome(State.SUCCEEDED, result="[1,2]")),
        ("voided", Outcome(State.IN_DOUBT, voided=True)),
        ("voided-word", Outcome(State.IN_DOUBT, voided=True)),
        ("unknown", _unknown("the bank does not answer")),
        ("unknown-word", _unknown(None)),
        ("none", _unknown(f"the query function returned NoneType: {UNDERSTOOD}")),
        ("class", _unknown(f"the query function returned type: {UNDERSTOOD}")),
        ("other-word", _unknown(f"the query function returned str: {UNDERSTOOD}")),
        ("list", _unknown(f"the query function returned list: {UNDERSTOOD}")),
        ("odd-message", _unknown(f"the query function returned Unknown: {UNDERSTOOD}")),
        ("no-such-answer", _unknown("the query function raised KeyError")),
    ],
)
def test_an_answer_becomes_an_outcome(
    asked: Driven, topic: str, answer: str, outcome: Outcome
) -> None:
    assert _ask(asked, topic, answer) == outcome


@pytest.mark.parametrize(
    ("answer", "code"),
    [("happened-large", "RESULT_TOO_LARGE"), ("happened-set", "RESULT_NOT_JSON")],
)
def test_what_happened_is_a_success_whatever_becomes_of_its_result(
    asked: Driven, answer: str, code: str
) -> None:
    outcome = _ask(asked, "plain", answer)
    assert (outcome.state, outcome.code, outcome.result) == (State.SUCCEEDED, code, None)


@pytest.mark.parametrize(
    ("topic", "told"),
    [
        ("effect", "the query function raised RuntimeError"),
        ("connection", "the query function raised RuntimeError"),
        ("exit", "the query function raised SystemExit"),
        ("cancel", "the query function raised CancelledError"),
        ("coroutine-returned", "the query function raised TypeError"),
        ("without", "no query function for without in this child: was its code changed?"),
        ("unheard-of", "no query function for unheard-of in this child: was its code changed?"),
    ],
)
def test_whatever_goes_wrong_nothing_is_known_and_the_child_lives(
    asked: Driven, topic: str, told: str
) -> None:
    assert _ask(asked, topic, 1) == _unknown(told)
    pid = asked.pids(1)[0]
    assert asked.run([job("plain", request_id="r2")])["r2"].result == json.dumps('"ran"')
    assert asked.pids(1) == [pid]


@pytest.mark.parametrize("topic", ["got", "handler-on-loop"])
def test_a_query_gets_the_request_and_runs_by_its_own_kind(asked: Driven, topic: str) -> None:
    headers = (("traceparent", b"00-1"),)
    outcome = _ask(asked, topic, headers=headers, generation=4, voids=2)
    request_id, generation, voids, key, header, thread = json.loads(outcome.result or "")
    assert (request_id, generation, voids, header) == ("r1", 4, 2, "traceparent")
    assert key == "ow-" + sha256(b"payments\0r1\x002\0").hexdigest()[:40]
    assert thread == "slot"


def test_an_object_that_is_awaited_runs_on_the_loop(asked: Driven) -> None:
    assert _ask(asked, "object-on-loop").result == '"loop"'


def test_a_query_that_hangs_is_overdue(asked: Driven, tmp_path: Path) -> None:
    asked.pool.dispatch([job("hold", fifo(tmp_path), asks=True, time_limit_s=0.3)])
    death = asked.death()
    assert [one.asks for one in death.overdue] == [True]


def test_what_a_query_raises_goes_to_the_log_without_its_text(
    make_pool: MakePool, capfd: pytest.CaptureFixture[str]
) -> None:
    _ask(make_pool(handlers=(HANDLERS,)), "plain", "4111-1111")
    logged = capfd.readouterr().err
    assert "query.raised" in logged and "KeyError" in logged
    assert "4111-1111" not in logged


def _asks_twice(request: object) -> Iterator[str]:
    yield "happened"


def _wants_more(request: object, bank: object) -> str:
    return "happened"


@pytest.mark.parametrize(
    ("query", "fault"),
    [
        (None, "needs query="),
        ("happened", "needs query="),
        (lambda: "happened", "query= must accept one positional argument"),
        (_wants_more, "query= must accept one positional argument"),
        (_asks_twice, "query= is a generator"),
        (lambda request, bank="b": "happened", None),
    ],
)
def test_a_query_that_cannot_be_asked_is_refused_when_it_is_declared(
    query: Callable[..., Any] | None, fault: str | None
) -> None:
    declared = Handler(
        lambda request: None,
        topic="t",
        name="m:f",
        in_doubt=InDoubtPolicy.QUERY,
        query=query,
    )
    if fault is None:
        check(declared)
    else:
        with pytest.raises(HandlerDefinitionError, match=fault):
            check(declared)
