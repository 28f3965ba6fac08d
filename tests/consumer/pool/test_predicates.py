"""What the user's predicate says, raises and may not do, before its handler is called."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from consumer import InDoubt, Rejected, Request
from consumer.handlers.declaration import EffectKind, Handler
from consumer.pool import Job, Outcome
from consumer.pool.predicates import refusal, refusal_coroutine
from feedback.status import State
from tests.consumer.features.collapse.samples import collapsing
from tests.consumer.pool.driving import job

NO = Outcome(State.SKIPPED, code="NOT_APPLICABLE")
EFFECTS = list(EffectKind)


def handler(predicate: Callable[[Request], Any], **settings: Any) -> Handler:
    made = collapsing(**{"effect": EffectKind.EXTERNAL, **settings})
    object.__setattr__(made, "collapse", predicate)
    return made


def one(**facts: Any) -> Job:
    return job("payments", {"amount": 5}, collapses=True, **facts)


def said(predicate: Callable[[Request], Any], **settings: Any) -> Outcome | None:
    return refusal(one(), handler(predicate, **settings), group="g")


def raising(error: BaseException) -> Callable[[Request], Any]:
    def predicate(request: Request) -> bool:
        raise error

    return predicate


def test_it_sees_the_request_and_its_yes_lets_the_handler_be_called() -> None:
    seen: list[Request] = []

    def is_five(request: Request) -> bool:
        seen.append(request)
        return bool(request.json()["amount"] == 5)

    assert said(is_five) is None
    assert (seen[0].request_id, seen[0].generation, seen[0].group) == ("r1", 1, "g")


@pytest.mark.parametrize("answer", [False, None, 0, []])
def test_its_no_ends_the_request_as_not_applicable(answer: object) -> None:
    assert said(lambda request: answer) == NO


def test_it_is_not_asked_where_the_job_does_not_ask_it() -> None:
    assert refusal(job("payments"), handler(raising(OSError())), group="g") is None
    assert refusal(one(), collapsing().__class__(print, "t", "n"), group="g") is None


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("error", [OSError("no"), SystemExit(1), KeyboardInterrupt()])
def test_what_it_raises_fails_the_request_and_leaves_no_doubt(
    effect: EffectKind, error: BaseException
) -> None:
    outcome = said(raising(error), effect=effect)
    assert outcome is not None
    assert (outcome.state, outcome.code, outcome.resend) == (State.FAILED, "HANDLER_ERROR", False)
    assert outcome.raised is not None
    assert outcome.raised.error_class == type(error).__name__


def test_what_is_declared_to_leave_nothing_may_run_again() -> None:
    outcome = said(raising(OSError("busy")), retry_on=(OSError,))
    assert outcome is not None
    assert (outcome.state, outcome.resend) == (State.FAILED, True)


def test_a_rejection_and_a_doubt_of_its_own_are_taken_at_their_word() -> None:
    rejected, doubt = said(raising(Rejected("OLD", "m"))), said(raising(InDoubt("who knows")))
    assert rejected is not None and doubt is not None
    assert (rejected.state, rejected.code, rejected.message) == (State.FAILED, "OLD", "m")
    assert (doubt.state, doubt.message) == (State.IN_DOUBT, "who knows")


def test_it_decides_and_has_no_effect() -> None:
    outcome = said(lambda request: request.effect(), effect=EffectKind.MARKED)
    assert outcome is not None
    assert (outcome.state, outcome.code) == (State.FAILED, "HANDLER_ERROR")


def test_a_coroutine_that_a_plain_predicate_returns_is_no_yes() -> None:
    async def later(request: Request) -> bool:
        return True

    outcome = said(lambda request: later(request))
    assert outcome is not None
    assert (outcome.state, outcome.code) == (State.FAILED, "HANDLER_ERROR")


def test_a_coroutine_is_awaited_and_a_plain_one_is_asked_beside_a_coroutine() -> None:
    async def no_later(request: Request) -> bool:
        await asyncio.sleep(0)
        return False

    async def raises_later(request: Request) -> bool:
        raise OSError("no")

    def ask(predicate: Callable[[Request], Any], asked: Job) -> Outcome | None:
        return asyncio.run(refusal_coroutine(asked, handler(predicate), group="g"))

    assert ask(no_later, one()) == NO
    assert ask(no_later, job("payments")) is None
    assert ask(lambda request: False, one()) == NO
    failed = ask(raises_later, one())
    assert failed is not None
    assert (failed.state, failed.code) == (State.FAILED, "HANDLER_ERROR")


def test_a_plain_one_holds_up_no_coroutine_beside_it() -> None:
    said, waiting = threading.Event(), threading.Event()

    def waits(request: Request) -> bool:
        waiting.set()
        return said.wait(60)

    async def both() -> Outcome | None:
        asked = asyncio.create_task(refusal_coroutine(one(), handler(waits), group="g"))
        while not waiting.is_set():
            await asyncio.sleep(0.001)
        said.set()  # by the loop, which is free
        return await asked

    assert asyncio.run(both()) is None
