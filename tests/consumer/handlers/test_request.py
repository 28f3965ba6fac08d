"""What a handler can do with its request, as a unit test of a handler sees it."""

import asyncio
import doctest
import subprocess
import sys
from typing import Literal

import pytest
from pydantic import BaseModel

import consumer.handlers.request
from consumer.handlers.effect_gate import EffectGate
from consumer.handlers.errors import EffectRefused
from consumer.handlers.request import Request


class Payment(BaseModel):
    """A payload."""

    card: str
    amount: int


def test_the_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(consumer.handlers.request).failed == 0


def test_json_decodes_the_value() -> None:
    assert Request.for_tests({"amount": 5}).json() == {"amount": 5}
    assert Request.for_tests(value=b"[1]").json() == [1]


@pytest.mark.parametrize("value", [None, b"", b"{", b"\xff"])
def test_json_of_a_value_that_is_none_is_a_value_error(value: bytes | None) -> None:
    with pytest.raises(ValueError):
        Request.for_tests(value=value).json()


def test_the_payload_is_the_model_and_made_once() -> None:
    request = Request.for_tests({"card": "4", "amount": 5}, model=Payment)
    assert request.payload == Payment(card="4", amount=5)
    assert request.payload is request.payload


def test_a_payload_that_does_not_fit_names_the_fields_and_not_what_they_hold() -> None:
    request = Request.for_tests({"card": {"secret": 4111}, "amount": "x"}, model=Payment)
    with pytest.raises(ValueError, match="not a Payment: card: string_type; amount") as refused:
        _ = request.payload
    assert "4111" not in str(refused.value)
    assert refused.value.__context__ is None


def test_a_payload_without_a_model_or_without_a_value_is_refused() -> None:
    with pytest.raises(RuntimeError, match="model="):
        _ = Request.for_tests({}).payload
    with pytest.raises(ValueError, match="null"):
        _ = Request.for_tests(value=None, model=Payment).payload


def test_the_text_of_a_request_shows_no_payload() -> None:
    request = Request.for_tests({"card": "4111"}, key=b"4222", headers=(("x", b"4333"),))
    assert "request_id='test'" in repr(request)
    assert not {"4111", "4222", "4333"} & {repr(request)[i : i + 4] for i in range(1000)}


def test_the_idempotency_key_tells_group_request_and_voids_apart() -> None:
    facts = [("a", "b", 0), ("a", "c", 0), ("b", "b", 0), ("a", "b", 1), ("ab", "", 0)]
    keys = {
        Request.for_tests(group=group, request_id=name, voids=voids, attempt=9).idempotency_key
        for group, name, voids in facts
    }
    assert len(keys) == len(facts)
    assert Request.for_tests().idempotency_key == Request.for_tests(attempt=2).idempotency_key


def test_the_idempotency_key_never_changes_between_releases() -> None:
    request = Request.for_tests(group="payments", request_id="r1")
    assert request.idempotency_key == "ow-f8f70fcf28b1b82bf427122ee864d315789fd156"


@pytest.mark.parametrize(
    ("headers", "found"),
    [((), None), ((("traceparent", b"00-a"),), "00-a"), ((("traceparent", None),), None)],
)
def test_the_trace_context_comes_from_the_headers(
    headers: tuple[tuple[str, bytes | None], ...], found: str | None
) -> None:
    assert Request.for_tests(headers=headers).traceparent == found


@pytest.mark.parametrize(
    ("effect", "why"), [("external", "whole run"), ("transactional", "one transaction")]
)
def test_only_a_marked_handler_has_an_effect_to_enter(
    effect: Literal["external", "transactional"], why: str
) -> None:
    with pytest.raises(RuntimeError, match=why):
        Request.for_tests(effect=effect).effect()


def test_only_a_transactional_handler_has_a_connection() -> None:
    with pytest.raises(RuntimeError, match="transactional"):
        _ = Request.for_tests().connection


def test_a_unit_test_can_let_the_effect_be_granted_or_refused() -> None:
    granted, refused = Request.for_tests(), Request.for_tests(refuse_effect=True)
    with granted.effect(), granted.effect():
        pass
    for _ in range(2):
        with pytest.raises(EffectRefused), refused.effect():
            pytest.fail("the effect was entered")


def test_a_unit_test_of_a_coroutine_can_enter_the_effect() -> None:
    async def work(request: Request) -> str:
        async with request.effect():
            return "done"

    assert asyncio.run(work(Request.for_tests())) == "done"
    with pytest.raises(EffectRefused):
        asyncio.run(work(Request.for_tests(refuse_effect=True)))


def test_an_effect_cannot_be_entered_after_the_run_has_ended() -> None:
    gate = EffectGate("r1", 1, lambda answered: answered(True))
    gate.close()
    with pytest.raises(RuntimeError, match="has ended"), gate:
        pytest.fail("the effect was entered")


def test_what_every_child_imports_is_light() -> None:
    heavy = "{'sqlalchemy', 'kafka', 'redis', 'pydantic', 'asyncio', 'hashlib'}"
    code = f"import sys, consumer.pool.child; print(sorted({heavy} & sys.modules.keys()))"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
