"""Whatever a handler raises or returns, its run has an end and its child goes on."""

from __future__ import annotations

import sys
import traceback
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.handlers.declaration import EffectKind, Handler
from consumer.handlers.errors import InDoubt, Rejected
from consumer.handlers.registry import HandlerRegistry
from consumer.pool.frames import FrameDecoder
from consumer.pool.job import PoolSettings
from consumer.pool.outcome import Outcome, judge_return
from consumer.pool.runs import Runs
from consumer.pool.wire import pack_report, unpack_report
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import job
from tests.hostile import VALUES, exceptions


def _ends(error: BaseException, effect: EffectKind) -> Outcome:
    """Return what the parent reads of a run that raised this."""

    def fail(request: object) -> None:
        raise error

    one = Handler(fail, topic="t", name="m:f", effect=effect, retry_on=(ConnectionError, "NO"))
    registry = HandlerRegistry()
    registry.add(one)
    runs: Any = Runs(registry=registry, settings=PoolSettings((), "g"), effects=Mock())
    fault = ""
    try:
        outcome: Outcome = runs.run(1, job("t"))
    except BaseException:
        fault = "".join(traceback.format_tb(sys.exc_info()[2]))
    # Not within the error: Hypothesis would look at all that is behind ours.
    assert not fault
    frame = next(FrameDecoder().feed(pack_report(finished=[(1, outcome)])))
    ((_, told),) = unpack_report(frame).finished
    assert (told.state, told.code, told.resend) == (outcome.state, outcome.code, outcome.resend)
    return outcome


@given(exceptions(), st.sampled_from([EffectKind.EXTERNAL, EffectKind.MARKED]))
def test_whatever_a_handler_raises_is_the_end_of_its_run_and_no_success(
    error: BaseException, effect: EffectKind
) -> None:
    outcome = _ends(error, effect)
    assert outcome.state in (State.FAILED, State.IN_DOUBT)
    assert not (outcome.committed or outcome.voided)
    for text in (outcome.code, outcome.message):
        assert text is None or (
            type(text) is str and text.encode() is not None and "\0" not in text
        )


@given(exceptions(ValueError, Exception, SystemExit))
def test_an_error_that_cannot_be_asked_declares_nothing(error: BaseException) -> None:
    outcome = _ends(error, EffectKind.EXTERNAL)
    assert outcome.resend or (outcome.state, outcome.code) == (State.IN_DOUBT, "HANDLER_ERROR")
    assert not outcome.resend or getattr(error, "code", None) == "NO"


@given(VALUES)
def test_a_message_of_any_kind_leaves_the_word_as_it_is(message: Any) -> None:
    rejected, doubt = Rejected("NO_MONEY", message), InDoubt(message)
    assert _ends(rejected, EffectKind.EXTERNAL).code == "NO_MONEY"
    outcome = _ends(doubt, EffectKind.EXTERNAL)
    assert (outcome.state, outcome.code) == (State.IN_DOUBT, None)


def test_a_subclass_that_forgets_the_class_above_is_what_it_is() -> None:
    class Bare(Rejected):
        def __init__(self) -> None:
            """Call nobody."""

    class Doubt(InDoubt):
        def __init__(self) -> None:
            """Call nobody."""

    assert _ends(Bare(), EffectKind.EXTERNAL) == replace(
        Outcome(State.FAILED, "REJECTED", ""), raised=_ends(Bare(), EffectKind.EXTERNAL).raised
    )
    assert _ends(Doubt(), EffectKind.EXTERNAL).state is State.IN_DOUBT


@given(
    st.recursive(
        VALUES | exceptions(), lambda some: st.dictionaries(st.text(), some) | st.lists(some)
    )
)
def test_whatever_a_handler_returns_is_a_success(value: object) -> None:
    assert judge_return(value, max_result_bytes=1000).state is State.SUCCEEDED


@pytest.mark.parametrize("kind", ["name", "message", "code"])
def test_a_child_outlives_what_its_handler_raises(make_pool: MakePool, kind: str) -> None:
    driven = make_pool()
    pid = driven.pids(1)[0]
    outcome = driven.run([job("raise-hostile", kind)])["r1"]
    assert outcome.state in (State.FAILED, State.IN_DOUBT)
    assert f'"pid":{pid}' in str(driven.run([job("echo", request_id="r2")])["r2"].result)


def test_a_fault_of_ours_ends_the_child_though_it_cannot_be_logged(make_pool: MakePool) -> None:
    driven = make_pool()
    driven.pool.dispatch([job("break-the-child")])
    assert driven.death().reason == "exited with code 70"
