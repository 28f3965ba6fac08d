"""Which outcome topics a handler may name."""

from __future__ import annotations

import pytest

from consumer.features.outcomes.outcomes import outcome_topics
from consumer.handlers.checks.handler_check import check
from consumer.handlers.declaration import HandlerDefinitionError
from tests.consumer.samples import payments


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("payments", "its next request"),
        ("", "1 to 249"),
        ("a b", "1 to 249"),
        ("t" * 250, "1 to 249"),
        (5, "1 to 249"),
    ],
)
def test_an_outcome_topic_that_cannot_be_is_refused(topic: object, why: str) -> None:
    with pytest.raises(HandlerDefinitionError, match=why):
        check(payments(outcome_topic=topic))


def test_the_outcomes_of_those_topics_are_wanted_whose_handlers_say_so() -> None:
    check(payments(outcome_topic="payments.outcomes"))
    assert outcome_topics([payments()]) == {}
    named = payments(outcome_topic="payments.outcomes")
    assert outcome_topics([named]) == {"payments": "payments.outcomes"}
