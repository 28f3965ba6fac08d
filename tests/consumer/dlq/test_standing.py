"""What a letter is good for, by what the journal says now."""

from collections.abc import Sequence

import pytest

from consumer.dlq.dialects.reading import letter_of
from consumer.dlq.letter import DeadLetter
from consumer.dlq.standing import Standing, standing_of
from consumer.journal.actions import Action
from consumer.journal.records import Row
from tests.consumer.dlq.samples import letter, record
from tests.consumer.features.dead_letters.samples import failed
from tests.consumer.samples import row

NOW = 1_700_000_000_000


def standing(of: DeadLetter, found: Row | None, actions: Sequence[Action]) -> Standing:
    """Return what a letter is good for at `NOW`."""
    return standing_of(of, found, actions, now=NOW)


def did(action: str, *, generation: int = 1) -> Action:
    """Return what somebody did about the request `a`."""
    return Action("a", action, "ann@host", 1, None, None, generation)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("CLAIMED", Standing.RUNNING),
        ("RETRYING", Standing.RUNNING),
        ("SUCCEEDED", Standing.REPAIRED),
        ("SKIPPED", Standing.REPAIRED),
        ("IN_DOUBT", Standing.IN_DOUBT),
        ("EXPIRED", Standing.EXPIRED),
    ],
)
def test_a_letter_whose_request_went_on_says_how_far(state: str, expected: Standing) -> None:
    assert standing(letter(), row("a", state), [did("discard")]) is expected


def test_a_failure_is_open_until_it_is_sent_back_or_discarded() -> None:
    assert standing(letter(), failed(), []) is Standing.OPEN
    assert standing(letter(), failed(), [did("discard")]) is Standing.DISCARDED
    assert standing(letter(), failed(), [did("discard", generation=9)]) is Standing.OPEN
    taken_back = [did("discard"), did("cancel")]
    assert standing(letter(), failed(), taken_back) is Standing.OPEN


def test_what_was_sent_back_runs_until_the_deadline_of_that_and_is_open_again_then() -> None:
    for deadline_at, what in ((NOW + 1, Standing.RUNNING), (NOW, Standing.OPEN)):
        sent_back = failed(resend=True, deadline_at=deadline_at)
        assert standing(letter(), sent_back, []) is what


def test_the_letter_of_an_earlier_run_gives_way_to_the_later_one() -> None:
    again = failed(generation=2)
    assert standing(letter(), again, []) is Standing.OLDER
    assert standing(letter(DLQ_ATTEMPTS="2"), again, []) is Standing.OPEN


def test_a_refused_request_never_ran_and_is_open() -> None:
    refused = failed(claimed_at=None, generation=1)
    assert standing(letter(DLQ_ATTEMPTS="0"), refused, []) is Standing.OPEN


@pytest.mark.parametrize("before", ["0", "1"])
def test_what_is_refused_when_it_is_sent_back_has_a_letter_of_its_own(before: str) -> None:
    refused = failed(claimed_at=None, generation=2)
    assert standing(letter(DLQ_ATTEMPTS=before), refused, []) is Standing.OLDER
    assert standing(letter(DLQ_ATTEMPTS="2"), refused, []) is Standing.OPEN


def test_a_letter_of_others_has_no_row_or_does_not_count_its_runs() -> None:
    assert standing(letter(), None, []) is Standing.UNKNOWN
    silent = letter(DLQ_ATTEMPTS=None)
    assert standing(silent, failed(generation=5), []) is Standing.OPEN
    theirs = letter_of(
        record([("__dlq.errors.topic", b"t"), ("__dlq.errors.delivery.count", b"1")])
    )
    assert standing(theirs, failed(generation=5), []) is Standing.OPEN
