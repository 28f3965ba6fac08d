"""What a letter is good for, by what the journal says now."""

import pytest

from consumer.dlq.dialects.reading import letter_of
from consumer.dlq.standing import Standing, standing_of
from consumer.journal.actions import Action
from tests.consumer.dead_letters.samples import failed
from tests.consumer.dlq.samples import letter, record
from tests.consumer.samples import row


def did(action: str, *, generation: int = 1) -> Action:
    """Return what somebody did about the request `a`."""
    return Action("a", action, "ann@host", 1, None, None, generation)


@pytest.mark.parametrize(
    ("state", "standing"),
    [
        ("CLAIMED", Standing.RUNNING),
        ("RETRYING", Standing.RUNNING),
        ("SUCCEEDED", Standing.REPAIRED),
        ("SKIPPED", Standing.REPAIRED),
        ("IN_DOUBT", Standing.IN_DOUBT),
        ("EXPIRED", Standing.EXPIRED),
    ],
)
def test_a_letter_whose_request_went_on_says_how_far(state: str, standing: Standing) -> None:
    assert standing_of(letter(), row("a", state), [did("discard")]) is standing


def test_a_failure_is_open_until_it_is_sent_back_or_discarded() -> None:
    assert standing_of(letter(), failed(), []) is Standing.OPEN
    assert standing_of(letter(), failed(), [did("discard")]) is Standing.DISCARDED
    assert standing_of(letter(), failed(), [did("discard", generation=9)]) is Standing.OPEN
    taken_back = [did("discard"), did("cancel")]
    assert standing_of(letter(), failed(), taken_back) is Standing.OPEN
    assert standing_of(letter(), failed(resend=True), []) is Standing.RUNNING


def test_the_letter_of_an_earlier_run_gives_way_to_the_later_one() -> None:
    again = failed(generation=2)
    assert standing_of(letter(), again, []) is Standing.OLDER
    assert standing_of(letter(DLQ_ATTEMPTS="2"), again, []) is Standing.OPEN


def test_a_refused_request_never_ran_and_is_open() -> None:
    refused = failed(claimed_at=None, generation=1)
    assert standing_of(letter(DLQ_ATTEMPTS="0"), refused, []) is Standing.OPEN


def test_a_letter_of_others_has_no_row_or_does_not_count_its_runs() -> None:
    assert standing_of(letter(), None, []) is Standing.UNKNOWN
    silent = letter(DLQ_ATTEMPTS=None)
    assert standing_of(silent, failed(generation=5), []) is Standing.OPEN
    theirs = letter_of(
        record([("__dlq.errors.topic", b"t"), ("__dlq.errors.delivery.count", b"1")])
    )
    assert standing_of(theirs, failed(generation=5), []) is Standing.OPEN
