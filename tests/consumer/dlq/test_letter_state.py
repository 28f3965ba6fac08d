"""What a letter is good for, by what the journal says now."""

from collections.abc import Sequence

import pytest

from consumer.dlq.dialects.reading import letter_of
from consumer.dlq.letter import Letter
from consumer.dlq.letter_state import LetterState, state_of
from consumer.journal.actions import Action
from consumer.journal.records import Row
from tests.consumer.dlq.samples import letter, record
from tests.consumer.features.dead_letters.samples import failed
from tests.consumer.samples import row

NOW = 1_700_000_000_000


def state_now(of: Letter, found: Row | None, actions: Sequence[Action]) -> LetterState:
    """Return what a letter is good for at `NOW`."""
    return state_of(of, found, actions, now=NOW)


def did(action: str, *, generation: int | None = 1) -> Action:
    """Return what somebody did about the request `a`."""
    return Action("a", action, "ann@host", 1, None, None, generation)


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ("CLAIMED", LetterState.RUNNING),
        ("RETRYING", LetterState.RUNNING),
        ("SUCCEEDED", LetterState.REPAIRED),
        ("SKIPPED", LetterState.REPAIRED),
        ("IN_DOUBT", LetterState.IN_DOUBT),
        ("EXPIRED", LetterState.EXPIRED),
    ],
)
def test_a_letter_whose_request_went_on_says_how_far(state: str, expected: LetterState) -> None:
    assert state_now(letter(), row("a", state), [did("discard")]) is expected


def test_a_failure_is_open_until_it_is_sent_back_or_discarded() -> None:
    assert state_now(letter(), failed(), []) is LetterState.OPEN
    assert state_now(letter(), failed(), [did("discard")]) is LetterState.DISCARDED
    assert state_now(letter(), failed(), [did("discard", generation=9)]) is LetterState.OPEN
    taken_back = [did("discard"), did("cancel")]
    assert state_now(letter(), failed(), taken_back) is LetterState.OPEN


def test_what_was_sent_back_runs_until_the_deadline_of_that_and_is_open_again_then() -> None:
    for deadline_at, what in ((NOW + 1, LetterState.RUNNING), (NOW, LetterState.OPEN)):
        sent_back = failed(resend=True, deadline_at=deadline_at)
        assert state_now(letter(), sent_back, []) is what


def test_the_letter_of_an_earlier_run_gives_way_to_the_later_one() -> None:
    again = failed(generation=2)
    assert state_now(letter(), again, []) is LetterState.OLDER
    assert state_now(letter(DLQ_ATTEMPTS="2"), again, []) is LetterState.OPEN


def test_a_refused_request_never_ran_and_is_open() -> None:
    refused = failed(claimed_at=None, generation=1)
    assert state_now(letter(DLQ_ATTEMPTS="0"), refused, []) is LetterState.OPEN


@pytest.mark.parametrize("before", ["0", "1"])
def test_what_is_refused_when_it_is_sent_back_has_a_letter_of_its_own(before: str) -> None:
    refused = failed(claimed_at=None, generation=2)
    assert state_now(letter(DLQ_ATTEMPTS=before), refused, []) is LetterState.OLDER
    assert state_now(letter(DLQ_ATTEMPTS="2"), refused, []) is LetterState.OPEN


def test_a_letter_of_others_has_no_row_or_does_not_count_its_runs() -> None:
    assert state_now(letter(), None, []) is LetterState.UNKNOWN
    closed = did("discard", generation=None)
    assert state_now(letter(), None, [closed]) is LetterState.DISCARDED
    undone = [closed, did("undo", generation=None)]
    assert state_now(letter(), None, undone) is LetterState.UNKNOWN
    silent = letter(DLQ_ATTEMPTS=None)
    assert state_now(silent, failed(generation=5), []) is LetterState.OPEN
    theirs = letter_of(
        record([("__dlq.errors.topic", b"t"), ("__dlq.errors.delivery.count", b"1")])
    )
    assert state_now(theirs, failed(generation=5), []) is LetterState.OPEN
