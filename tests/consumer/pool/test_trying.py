"""Tries within one run: for what is over in milliseconds."""

from pathlib import Path

import pytest

from consumer.pool import EffectAsked, Outcome, Started
from feedback.clock import epoch_ms
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import Driven, job
from tests.rounds import holds_in_one_round

HANDLERS = ("tests.consumer.pool.trying_handlers",)


def _outcome(driven: Driven, topic: str, body: object = None, *, left_ms: int = 60_000) -> Outcome:
    sent = job(topic, body, deadline_at=epoch_ms() + left_ms)
    driven.pool.dispatch([sent])
    answered = 0
    while "r1" not in driven.outcomes():
        asked = driven.told(EffectAsked)
        for one in asked[answered:]:
            driven.pool.answer_effect(one.request_id, one.generation, granted=True)
        answered = len(asked)
        driven.events += driven.pool.poll(5.0)
    return driven.outcomes()["r1"]


@pytest.mark.parametrize("topic", ["trying", "trying-coroutine"])
def test_what_is_over_soon_is_one_run_that_succeeds(make_pool: MakePool, topic: str) -> None:
    driven = make_pool(handlers=HANDLERS)
    outcome = _outcome(driven, topic, 4)
    assert outcome == Outcome(State.SUCCEEDED, result="4")
    assert len(driven.told(Started)) == 1
    assert len(driven.told(EffectAsked)) == 4


@pytest.mark.parametrize("topic", ["trying", "trying-coroutine"])
def test_what_lasts_longer_fails_as_declared(make_pool: MakePool, topic: str) -> None:
    outcome = _outcome(make_pool(handlers=HANDLERS), topic, 5)
    assert (outcome.state, outcome.resend) == (State.FAILED, True)
    assert outcome.message == "ConnectionRefusedError: call 4"


def test_a_declared_code_is_tried_again(make_pool: MakePool) -> None:
    assert _outcome(make_pool(handlers=HANDLERS), "trying-code").result == "3"


def test_no_try_begins_after_its_time(make_pool: MakePool) -> None:
    _last_call_is(make_pool, 4)


def test_no_try_begins_after_the_deadline(make_pool: MakePool) -> None:
    _last_call_is(make_pool, 2, left_ms=150)


def _last_call_is(make_pool: MakePool, number: int, **changes: int) -> None:
    """Check that no run makes more calls, of fifty that it may, and one of some makes so many."""

    def one_run() -> None:
        outcome = _outcome(make_pool(handlers=HANDLERS), "trying-long", **changes)
        calls.append(int(str(outcome.message).removeprefix("ConnectionRefusedError: call ")))
        assert calls[-1] == number

    calls: list[int] = []
    holds_in_one_round(one_run)
    assert max(calls) == number


def test_an_undeclared_error_is_not_tried_again(
    make_pool: MakePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_CALLS", str(tmp_path / "calls"))
    outcome = _outcome(make_pool(handlers=HANDLERS), "trying-fatal")
    assert (outcome.state, outcome.code) == (State.IN_DOUBT, "HANDLER_ERROR")
    assert (tmp_path / "calls").read_text() == "1"
