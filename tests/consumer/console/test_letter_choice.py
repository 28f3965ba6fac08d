"""The letters that an address chooses, and those of a bar among them."""

import pytest

from consumer.console.letter_choice import LetterChoice, asked_of
from consumer.dlq.dates import DateRange, date_range_of
from consumer.dlq.tally import HistogramBar
from feedback.records.envelope import MAX_EPOCH_MS

AT = 1_700_000_040_000
REASON = (("reason", "BANK"),)


def test_the_words_of_a_choice_are_read_as_the_same_choice() -> None:
    choice = LetterChoice(REASON, DateRange(AT + 7, AT + 60_000))
    assert choice.words == {
        "reason": "BANK",
        "since": "2023-11-14T22:14:00.007Z",
        "until": "2023-11-14T22:15:00Z",
    }
    since, until = choice.words["since"], choice.words["until"]
    assert date_range_of(since, until, now_ms=0) == choice.stretch
    assert LetterChoice().words == {}


@pytest.mark.parametrize(
    ("stretch", "expected"),
    [
        (DateRange(), DateRange(AT, AT + 60_000)),
        (DateRange(AT + 7), DateRange(AT + 7, AT + 60_000)),
        (DateRange(None, AT + 8), DateRange(AT, AT + 8)),
        (DateRange(0, MAX_EPOCH_MS), DateRange(AT, AT + 60_000)),
    ],
)
def test_a_bar_leads_to_its_own_letters_among_those_of_the_choice(
    stretch: DateRange, expected: DateRange
) -> None:
    found = LetterChoice(REASON, stretch).of_bar(HistogramBar(AT, 60_000, 3))
    assert found == LetterChoice(REASON, expected)


@pytest.mark.parametrize("begin_ms", [-60_000, MAX_EPOCH_MS])
def test_a_bar_outside_the_calendar_leads_nowhere(begin_ms: int) -> None:
    assert LetterChoice().of_bar(HistogramBar(begin_ms, 60_000, 3)) is None


def test_an_address_has_its_own_fields_and_those_that_a_form_has_kept() -> None:
    kept = "reason=b&topic=a%0Ab%1B&exception="
    assert asked_of({"reason": "a", "within": kept}) == {
        "reason": "a",
        "topic": "a\nb\x1b",
        "exception": "",
    }


def test_the_topic_of_another_system_is_kept_with_each_condition() -> None:
    choice = LetterChoice(REASON, DateRange(AT), dlq="orders-dlt")
    assert choice.source == {"dlq": "orders-dlt"} and "dlq" not in choice.narrowed
    assert choice.words == {"dlq": "orders-dlt", **choice.narrowed}
    of_bar = choice.of_bar(HistogramBar(AT, 60_000, 3))
    assert of_bar is not None and of_bar.dlq == "orders-dlt"
    assert LetterChoice(REASON).source == {}
