"""Records that were prepared and dropped, and that nobody reads again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from consumer.features.waits.write_ahead import WriteAhead
from consumer.handlers.declaration import DeliveryKind, EffectKind, InDoubtPolicy
from consumer.handlers.delivery import Delivery
from consumer.status.availability import ServerOutage
from tests.consumer.samples import delivery, payments

AGAIN = payments(
    delivery=DeliveryKind.AT_LEAST_ONCE,
    effect=EffectKind.EXTERNAL,
    in_doubt=InDoubtPolicy.RETRY_SAME_KEY,
)
ONCE = payments(delivery=DeliveryKind.AT_LEAST_ONCE, in_doubt=InDoubtPolicy.PARK)
DROPPED = [
    delivery("again")._replace(handler=AGAIN),
    delivery("once")._replace(handler=ONCE),
]


def given_back(dropped: Iterable[Delivery], *, topic: str, has_journal: bool) -> list[Delivery]:
    """Return those that any worker may take."""
    found: list[Delivery] = []
    nothing: Any = None
    write_ahead = WriteAhead(
        worker_id="me",
        topics=[topic],
        wait_records=nothing,
        outage=ServerOutage("wait_records"),
        give_back=found.extend,
        has_journal=has_journal,
    )
    write_ahead.read_by_nobody([*dropped])
    return found


def test_all_are_given_back_where_claims_decide() -> None:
    assert given_back(DROPPED, topic="payments", has_journal=True) == DROPPED


def test_without_a_journal_those_that_must_not_run_twice_are_kept() -> None:
    again, _ = DROPPED
    assert given_back(DROPPED, topic="payments", has_journal=False) == [again]


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_topic_without_wait_records_has_nothing_to_give_back(has_journal: bool) -> None:
    assert given_back(DROPPED, topic="mails", has_journal=has_journal) == []
