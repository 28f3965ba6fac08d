"""What a declaration of `delivery=` may not promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from consumer import Request, handler
from consumer.features.waits.declared import declared_by, may_run_again
from consumer.features.waits.wait_record import WaitRecord, decode_wait, encode_wait
from consumer.handlers.checks.waits import require_no_journal
from consumer.handlers.declaration import Handler, HandlerDefinitionError, InDoubtPolicy
from consumer.handlers.registry import DECLARED, HandlerRegistry
from feedback.errors import SettingsError
from feedback.records.envelope import Record


def declared(**settings: Any) -> Callable[[Request], None]:
    @handler(**{"topic": "checked-delivery", **settings})
    def work(request: Request) -> None:
        """Do nothing."""

    return work


@pytest.fixture(autouse=True)
def _forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DECLARED, "_by_topic", {})


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"delivery": "twice"}, '"at_least_once"'),
        ({"delivery": "at_least_once", "order": "key"}, "order"),
        ({"delivery": "batch", "topic": None, "dead_letters_of": "payments"}, "letter"),
    ],
)
def test_what_cannot_be_kept_is_refused(settings: dict[str, Any], word: str) -> None:
    with pytest.raises(HandlerDefinitionError, match=word):
        declared(**settings)


def test_batches_keep_the_order_of_keys() -> None:
    declared(delivery="batch", order="key")
    assert [one.delivery for one in DECLARED.handlers] == ["batch"]


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({}, 'delivery="at_most_once"'),
        ({"delivery": "batch"}, 'delivery="batch"'),
        ({"delivery": "at_least_once", "effect": "transactional"}, "transactional"),
        (
            {"delivery": "at_least_once", "in_doubt": "query", "query": lambda request: None},
            "query",
        ),
        ({"delivery": "at_least_once", "retry_on": "BUSY", "retries": "1s"}, "blocking"),
    ],
)
def test_without_a_journal_some_promises_cannot_be_kept(
    settings: dict[str, Any], word: str
) -> None:
    declared(**settings)
    with pytest.raises(SettingsError, match=word):
        require_no_journal(DECLARED.handlers)


def test_what_can_be_kept_without_one_is_accepted() -> None:
    declared(delivery="at_least_once", retry_on="BUSY", blocking="10ms x 3")
    require_no_journal(DECLARED.handlers)
    assert isinstance(DECLARED, HandlerRegistry)


def handler_with(policy: str) -> Handler:
    return Handler(lambda request: None, topic="t", name="m:f", in_doubt=InDoubtPolicy(policy))


@pytest.mark.parametrize(
    ("declared_then", "declared_now", "may"),
    [
        ("park", "retry_same_key", False),
        ("retry_same_key", "park", False),
        ("retry_same_key", "retry_same_key", True),
        (None, "retry_same_key", True),
        (None, "park", False),
    ],
)
def test_without_a_journal_the_stricter_of_two_declarations_decides_about_a_dead_run(
    declared_then: str | None, declared_now: str, may: bool
) -> None:
    wait = WaitRecord("id-1", 1, "dead", 10**13, Record("t", 0, 7, -1, b"k", b"v", ()))
    if declared_then is not None:
        wait = declared_by(wait, handler_with(declared_then))
    out = encode_wait(wait, group="g", partition=0)
    read = decode_wait(
        Record(out.topic, 0, 9, 1, out.key, out.value, tuple(out.headers)), group="g"
    )
    assert isinstance(read, WaitRecord)
    assert may_run_again(handler_with(declared_now), read) is may
