"""Of two untold statuses of a request the one is told that Redis would end with."""

from itertools import product

import pytest

from feedback.status import State
from feedback.statuses import Origin, StatusWrite, newer_of
from tests.feedback.samples import OTHER_SHA, a_write

FAILED = a_write(State.FAILED, fields={"resend": "1", "worker": "me"})


@pytest.mark.parametrize(
    ("stands", "comes"),
    [
        (a_write(State.ACCEPTED), a_write(State.RUNNING)),
        (a_write(State.RUNNING), a_write(State.SUCCEEDED)),
        (a_write(State.RETRYING), a_write(State.RUNNING, generation=2)),
        (FAILED, a_write(State.RUNNING, attempt=2, generation=2)),
        (a_write(State.IN_DOUBT), a_write(State.SUCCEEDED)),
        (a_write(State.ACCEPTED, fields={"worker": "me"}), a_write(State.ACCEPTED, held_by="me")),
    ],
)
def test_what_is_newer_is_told_whichever_came_first(
    stands: StatusWrite, comes: StatusWrite
) -> None:
    assert newer_of(stands, comes) is comes
    if comes.state is not stands.state:
        assert newer_of(comes, stands) is comes


@pytest.mark.parametrize(
    ("stands", "late"),
    [
        (a_write(State.SUCCEEDED), a_write(State.RUNNING)),
        (a_write(State.RUNNING, generation=2), a_write(State.SUCCEEDED)),
        (a_write(State.RUNNING), a_write(State.ACCEPTED, attempt=3)),
        (a_write(State.SUCCEEDED), a_write(State.FAILED, payload_sha256=OTHER_SHA)),
        (a_write(State.ACCEPTED, fields={"worker": "me"}), a_write(State.ACCEPTED, held_by="you")),
    ],
)
def test_what_is_older_is_not_told(stands: StatusWrite, late: StatusWrite) -> None:
    assert newer_of(stands, late) is stands


def test_of_two_deliveries_given_up_together_the_later_attempt_is_told() -> None:
    nobody = {"worker": ""}
    first, second = (
        a_write(State.ACCEPTED, attempt=attempt, held_by="me", fields=nobody) for attempt in (1, 2)
    )
    assert newer_of(first, second) is second
    assert newer_of(second, first) is second


def test_a_failure_that_is_being_opened_again_is_no_longer_told() -> None:
    again = a_write(State.ACCEPTED, attempt=2)
    assert newer_of(FAILED, again) is again


def test_a_repeated_outcome_is_told_as_it_came_last() -> None:
    first, second = (a_write(State.SUCCEEDED, fields={"result": one}) for one in "12")
    assert newer_of(first, second) is second


def test_the_origin_gives_way_to_what_the_write_itself_says() -> None:
    write = a_write(State.RUNNING, origin=Origin("a", 2, 1, 9), fields={"topic": "b"})
    told = {"topic": "b", "partition": "2", "offset": "1", "deadline_at": "9"}
    assert write.placed.fields == told
    assert write.placed.origin is None
    plain = a_write(State.RUNNING)
    assert plain.placed is plain


def test_a_lower_generation_never_takes_the_place_of_a_higher() -> None:
    after = [State.RUNNING, State.RETRYING, State.SUCCEEDED, State.FAILED, State.IN_DOUBT]
    for newer, older in product(after, after):
        stands = a_write(newer, generation=2)
        assert newer_of(stands, a_write(older, attempt=3)) is stands
