"""What a declaration of `delivery=` may not promise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from consumer import Request, handler
from consumer.handlers import HandlerDefinitionError, Registry
from consumer.registry import DECLARED
from consumer.waits.checks import require_no_journal
from feedback.errors import SettingsError


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
    assert isinstance(DECLARED, Registry)
