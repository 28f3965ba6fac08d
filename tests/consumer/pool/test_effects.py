"""Marked effects: the child waits until the parent has answered."""

import os
import signal

import pytest

from consumer.pool import EffectAsked
from consumer.pool.outcome import STALE
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import Driven, job


def _asked(driven: Driven, topic: str) -> EffectAsked:
    driven.pool.dispatch([job(topic, generation=4)])
    driven.until(lambda: driven.told(EffectAsked))
    return driven.told(EffectAsked)[0]


@pytest.mark.parametrize("topic", ["marked", "marked-coroutine"])
def test_a_granted_effect_lets_the_handler_go_on(make_pool: MakePool, topic: str) -> None:
    driven = make_pool()
    assert _asked(driven, topic) == EffectAsked("r1", 4)
    assert driven.pool.poll(0.2) == []  # it waits for the answer
    driven.pool.answer_effect("r1", 4, granted=True)
    driven.until(driven.outcomes)
    assert driven.outcomes()["r1"].result == '"charged"'
    assert len(driven.told(EffectAsked)) == 1


@pytest.mark.parametrize("topic", ["marked", "marked-coroutine", "marked-swallows"])
def test_a_refused_effect_makes_the_run_stale_whatever_it_returns(
    make_pool: MakePool, topic: str
) -> None:
    driven = make_pool()
    _asked(driven, topic)
    driven.pool.answer_effect("r1", 4, granted=False)
    driven.until(driven.outcomes)
    assert driven.outcomes()["r1"] == STALE


@pytest.mark.parametrize(("where", "state"), [("before", State.FAILED), ("inside", State.IN_DOUBT)])
def test_an_effect_refused_that_the_gate_did_not_raise_is_an_error_like_any_other(
    make_pool: MakePool, where: str, state: State
) -> None:
    driven = make_pool()
    driven.pool.dispatch([job("marked-refuses-itself", where, generation=4)])
    if where == "inside":
        driven.until(lambda: driven.told(EffectAsked))
        driven.pool.answer_effect("r1", 4, granted=True)
    driven.until(driven.outcomes)
    outcome = driven.outcomes()["r1"]
    assert (outcome.state, outcome.code, outcome.stale) == (state, "HANDLER_ERROR", False)


def test_an_error_after_the_effect_began_is_in_doubt(make_pool: MakePool) -> None:
    driven = make_pool()
    _asked(driven, "marked-then-raise")
    driven.pool.answer_effect("r1", 4, granted=True)
    driven.until(driven.outcomes)
    outcome = driven.outcomes()["r1"]
    assert (outcome.state, outcome.code) == (State.IN_DOUBT, "HANDLER_ERROR")


def test_a_child_killed_while_it_waits_is_told_and_its_answer_goes_nowhere(
    make_pool: MakePool,
) -> None:
    driven = make_pool()
    _asked(driven, "marked")
    os.kill(driven.pids(1)[0], signal.SIGKILL)
    assert [one.request_id for one in driven.death().started] == ["r1"]
    driven.pool.answer_effect("r1", 4, granted=True)
    driven.pids(2)
    assert driven.run([job("coroutine", 1, request_id="r2")])["r2"].result == "1"


def test_an_answer_for_another_generation_is_ignored(make_pool: MakePool) -> None:
    driven = make_pool()
    _asked(driven, "marked")
    driven.pool.answer_effect("r1", 3, granted=True)
    assert driven.pool.poll(0.2) == []
    driven.pool.answer_effect("r1", 4, granted=False)
    driven.until(driven.outcomes)
    assert driven.outcomes()["r1"].stale
