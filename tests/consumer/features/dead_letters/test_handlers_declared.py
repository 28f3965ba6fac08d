"""What can be declared of a handler of dead letters, and what it is in a group."""

import itertools
from random import Random
from typing import Any

import pytest
from pydantic import BaseModel

from consumer.features.retries.headers import retry_topics
from consumer.handlers.dead_letters.declaring import ENDLESS, ENDLESS_S, in_group
from consumer.handlers.declaration import EffectKind, Handler, HandlerDefinitionError, OnError
from consumer.handlers.decorator import handler
from consumer.handlers.errors import InDoubt, Rejected
from consumer.handlers.registry import DECLARED as declared_handlers
from consumer.handlers.registry import HandlerRegistry
from consumer.pool.outcome import Outcome, judge_error
from feedback.errors import SettingsError
from feedback.status import State

_numbers = itertools.count()


class Payment(BaseModel):
    amount: int


def declared(**settings: Any) -> Handler:
    """Return what was declared for the letters of a topic of its own."""
    source = f"declared-{next(_numbers)}"

    @handler(dead_letters_of=source, **settings)
    def file(request: object) -> None: ...

    (found,) = (one for one in declared_handlers.handlers if one.dead_letters_of == source)
    return found


def letters(**settings: Any) -> Handler:
    """Return a handler of the letters of `payments`."""
    known: dict[str, Any] = {"function": print, "topic": "?", "name": "m:f"}
    return Handler(**known | {"dead_letters_of": "payments", "on_error": OnError.FAIL} | settings)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"topic": "payments"}, "and not both"),
        ({"dead_letters_of": None}, "and not both"),
        ({"dead_letters_of": None, "topic": "other", "on_error": "fail"}, "is for dead letters"),
        ({"on_error": "ignore"}, '"fail", "retry"'),
        ({"dead_letters_of": "pay ments"}, "dead_letters_of='pay ments': a topic has"),
        ({"dead_letters_of": 5}, "dead_letters_of=5: a topic has"),
        ({"model": Payment}, "model= would refuse"),
        ({"schema": "payment.json"}, "schema= would refuse"),
        ({"on_error": "retry", "retry_on": OSError, "retries": "1s"}, "leave out retry_on=, ret"),
        ({"on_error": "retry", "never_retry": OSError}, "leave out never_retry="),
        ({"retry_on": Exception}, "would happen twice"),
    ],
)
def test_a_declaration_that_cannot_be_kept_says_what_to_write(
    settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(HandlerDefinitionError) as refused:
        handler(**{"dead_letters_of": "payments"} | settings)(lambda request: None)
    assert told in str(refused.value)


def test_its_topic_is_that_of_the_groups_letters_and_its_error_fails_unless_told_otherwise() -> (
    None
):
    found = declared()
    resolved = in_group(found, "g")
    assert resolved.topic == f"{found.dead_letters_of}.g.dlq"
    assert (resolved.on_error, resolved.retries, resolved.deadline_s) == (OnError.FAIL, None, None)


def test_one_that_insists_runs_again_up_to_every_ten_minutes_without_end() -> None:
    found = in_group(declared(on_error="retry"), "g")
    assert found.retries is ENDLESS
    assert found.deadline_s == ENDLESS_S
    delays = [ENDLESS.delay_ms(retry, Random(0)) for retry in (1, 2, 3, 4, 5, 6, 7, 10**9)]
    assert delays == [1000, 4000, 16_000, 64_000, 256_000, 600_000, 600_000, 600_000]
    names = {name.removeprefix(f"{found.topic}.g.retry.") for name in retry_topics([found], "g")}
    assert names == {"1s", "4s", "16s", "64s", "256s", "10m"}
    assert in_group(declared(on_error="retry", deadline_s=60), "g").deadline_s == 60


def test_the_letters_of_a_topic_have_one_handler() -> None:
    registry = HandlerRegistry()
    registry.add(letters(topic="dead letters of payments"))
    with pytest.raises(HandlerDefinitionError, match="already has m:f"):
        registry.add(letters(topic="dead letters of payments", function=repr))
    other = Handler(function=repr, topic="payments.g.dlq", name="m:g")
    registry.add(other)
    assert registry.in_group("another").topics == ("payments.another.dlq", "payments.g.dlq")
    with pytest.raises(HandlerDefinitionError, match="already has m:"):
        registry.in_group("g")


@pytest.mark.parametrize(
    ("source", "group", "told"),
    [("payments.g.dlq", "g", "no dead letters of dead letters"), ("p" * 200, "g" * 60, "shorten")],
)
def test_a_topic_that_cannot_have_such_letters_is_refused(
    source: str, group: str, told: str
) -> None:
    with pytest.raises(SettingsError, match=told):
        in_group(letters(dead_letters_of=source), group)


def judged(error: BaseException, *, granted: bool = False, **settings: Any) -> Outcome:
    return judge_error(error, handler=letters(**settings), effect_granted=granted)


INSISTS: dict[str, Any] = {"on_error": OnError.RETRY}
MARKED: dict[str, Any] = {"effect": EffectKind.MARKED}


@pytest.mark.parametrize("error", [OSError(), TypeError(), ValueError(), SystemExit(1)])
def test_an_error_fails_the_letter_or_lets_it_run_again_as_it_is_declared(
    error: BaseException,
) -> None:
    failed, again = judged(error), judged(error, **INSISTS)
    assert (failed.state, failed.resend) == (State.FAILED, False)
    assert (again.state, again.resend) == (State.FAILED, True)


@pytest.mark.parametrize("settings", [MARKED, MARKED | INSISTS])
def test_after_a_marked_effect_has_begun_an_error_leaves_doubt(settings: dict[str, Any]) -> None:
    assert judged(OSError(), granted=True, **settings).state is State.IN_DOUBT
    assert judged(OSError(), **settings).state is State.FAILED


@pytest.mark.parametrize("settings", [{}, INSISTS])
def test_what_a_handler_says_itself_counts(settings: dict[str, Any]) -> None:
    rejected = judged(Rejected("NO_TICKET"), **settings)
    assert (rejected.state, rejected.code, rejected.resend) == (State.FAILED, "NO_TICKET", False)
    assert judged(InDoubt(), **settings).state is State.IN_DOUBT
