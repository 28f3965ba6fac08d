"""What a letter is good for, by what the journal says now."""

from collections.abc import Sequence

import pytest

from consumer.dlq.dialects.letter_headers import letter_of
from consumer.dlq.letter import Letter
from consumer.dlq.letter_state import LetterStanding, LetterState, standing_of, state_of
from consumer.journal.actions import Action
from consumer.journal.records import JournalState, Row
from tests.consumer.dlq.samples import FAILED_AT, foreign, letter, record
from tests.consumer.features.dead_letters.samples import failed
from tests.consumer.samples import row

NOW = 1_700_000_000_000


def state_now(of: Letter, found: Row | None, actions: Sequence[Action]) -> LetterState:
    """Return what a letter is good for at `NOW`."""
    return state_of(of, found, actions, group="g", now=NOW)


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


# By the row's state: without an action, and where generation 1 of it was discarded.
OURS = {
    "CLAIMED": (LetterState.RUNNING, LetterState.RUNNING),
    "RETRYING": (LetterState.RUNNING, LetterState.RUNNING),
    "SUCCEEDED": (LetterState.REPAIRED, LetterState.REPAIRED),
    "SKIPPED": (LetterState.REPAIRED, LetterState.REPAIRED),
    "FAILED": (LetterState.OPEN, LetterState.DISCARDED),
    "IN_DOUBT": (LetterState.IN_DOUBT, LetterState.IN_DOUBT),
    "EXPIRED": (LetterState.EXPIRED, LetterState.EXPIRED),
}
THEIR_DISCARD = did("discard", generation=None)


@pytest.mark.parametrize("state", [one.value for one in JournalState])
def test_a_letter_of_ours_is_what_our_row_says_whatever_is_said_of_another_system_s(
    state: str,
) -> None:
    found, (untouched, closed) = row("a", state), OURS[state]
    nameless = letter(DLQ_CONSUMER_GROUP=None)
    mirrored = letter(of={"topic": "dc1.payments.g.dlq"})
    silent = letter_of(record((("onceward-request-id", b"a"),)))
    for ours in (letter(), nameless, mirrored, silent):
        assert ours.is_of("g")
        assert state_now(ours, found, []) is untouched
        assert state_now(ours, found, [THEIR_DISCARD]) is untouched
        assert state_now(ours, found, [did("discard"), THEIR_DISCARD]) is closed
        undone = [did("discard"), THEIR_DISCARD, did("undo", generation=None)]
        assert state_now(ours, found, undone) is closed


SPRING_OF_OURS = ("kafka_dlt-original-consumer-group", b"g"), ("kafka_dlt-exception-fqcn", b"x")
SHARE = ("__dlq.errors.topic", b"t"), ("__dlq.errors.delivery.count", b"1")


@pytest.mark.parametrize("state", [one.value for one in JournalState])
@pytest.mark.parametrize(
    "theirs",
    [
        foreign(),
        letter_of(record(SHARE)),
        letter_of(record(SPRING_OF_OURS)),
        letter_of(record((), topic="their-dlq")),
        letter(DLQ_CONSUMER_GROUP="another"),
        letter(of={"topic": "their-dlq"}),
        letter(DLQ_CONSUMER_GROUP=None, of={"topic": "their-dlq"}),
        foreign("a", DLQ_CONSUMER_GROUP="g", DLQ_ATTEMPTS="1"),
    ],
)
def test_a_letter_of_another_system_is_unknown_until_its_own_discard(
    theirs: Letter, state: str
) -> None:
    found = row("a", state)
    for actions in ([], [did("discard")], [did("redrive")]):
        assert state_now(theirs, found, actions) is LetterState.UNKNOWN
        assert standing_of(theirs, found, actions, group="g", now=NOW).ours == state
    # Where ours is open, a redrive would send it, and the letter with it.
    closed = LetterState.UNKNOWN if state == "FAILED" else LetterState.DISCARDED
    assert state_now(theirs, found, [THEIR_DISCARD]) is closed
    assert state_now(theirs, found, [THEIR_DISCARD, did("discard")]) is LetterState.DISCARDED
    undone = [THEIR_DISCARD, did("discard"), did("undo", generation=None)]
    assert state_now(theirs, found, undone) is LetterState.UNKNOWN


def test_what_a_redrive_has_sent_for_another_system_is_what_our_row_says() -> None:
    sent = Action("a", "redrive", "ann", FAILED_AT + 100, None, "r", None)
    for state, (expected, _) in OURS.items():
        found = row("a", state, claimed_at=FAILED_AT + 200)
        assert state_now(foreign(), found, [sent]) is expected
        assert standing_of(foreign(), found, [sent], group="g", now=NOW).ours is None
        again = foreign(DLQ_REDRIVE_ID="r")
        assert state_now(again, found, [sent]) is LetterState.UNKNOWN


def test_what_a_redrive_has_taken_is_unsent_until_its_resume() -> None:
    for found in (None, row("a", "SUCCEEDED")):
        state = state_of(foreign(), found, [], group="g", now=NOW, is_unsent=True)
        assert state is LetterState.UNSENT


def test_later_requests_are_asked_for_where_this_group_has_failed() -> None:
    assert LetterStanding(LetterState.OPEN).is_open_here
    assert LetterStanding(LetterState.UNKNOWN, "FAILED").is_open_here
    assert not LetterStanding(LetterState.UNKNOWN, "SUCCEEDED").is_open_here
    assert not LetterStanding(LetterState.UNKNOWN).is_open_here
