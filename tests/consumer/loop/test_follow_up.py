"""Which answers of the journal are told, of requests that had ended before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import pytest

from consumer.intake.buffer import Buffer
from consumer.journal import Applied, ClaimVerdict, Row, VerdictKind
from consumer.loop import mapping
from consumer.loop.follow_up import FollowUp
from consumer.loop.in_flight import InFlight
from consumer.loop.scheduler import Scheduler
from consumer.status.status_writer import StatusWriter
from feedback.status import RefusalReason, State
from feedback.statuses import Refused, StatusWrite
from tests.consumer.samples import delivery, row

ENDED = row("a", "SUCCEEDED", published_at=1)
FAILED = row("a", "FAILED", published_at=1, resend=True)
STANDS = Refused(RefusalReason.GENERATION, State.SUCCEEDED, 1, 1, False)


class Teller:
    """A status writer that remembers what it was to tell."""

    def __init__(self) -> None:
        self.told: list[StatusWrite] = []

    def tell(self, writes: Iterable[StatusWrite]) -> None:
        self.told += writes


def answered(
    found: Row,
    stands: Refused | None,
    *,
    attempt: int = 1,
    kind: VerdictKind = VerdictKind.ANSWERED,
) -> list[StatusWrite]:
    """Return what is told of a record whose request stood so, in the journal and in Redis."""
    teller = Teller()
    follow_up = FollowUp(
        worker_id="me",
        in_flight=InFlight(),
        scheduler=Scheduler(Buffer(8)),
        status_writer=cast(StatusWriter, teller),
        features=(),
    )
    one = delivery("a", attempt)._replace(is_known=True, stands=stands)
    verdict = ClaimVerdict(kind, mapping.claim(one), found, "")
    applied = Applied((verdict,), frozenset(), {}, ())
    assert list(follow_up.claimed([one], applied)) == []
    return teller.told


def test_an_end_that_redis_has_just_said_is_not_told_again() -> None:
    assert answered(ENDED, STANDS) == []
    open_failure = Refused(RefusalReason.GENERATION, State.FAILED, 1, 1, True)
    assert answered(FAILED, open_failure) == []


def test_an_end_that_redis_was_not_asked_about_is_told() -> None:
    (told,) = answered(ENDED, None)
    assert (told.state, told.generation) == (State.SUCCEEDED, 1)


@pytest.mark.parametrize(
    "found, facts",
    [
        # The journal does not know that Redis was told of this end.
        (row("a", "SUCCEEDED"), {}),
        # Redis said something else.
        (ENDED, {"state": State.RUNNING}),
        (ENDED, {"state": State.IN_DOUBT}),
        (row("a", "SUCCEEDED", published_at=1, generation=2), {}),
        (FAILED, {"state": State.FAILED}),
        # It said it of another payload.
        (ENDED, {"reason": RefusalReason.PAYLOAD}),
        # It has not ended: its worker and its next run are told.
        (row("a", "CLAIMED"), {"state": State.RUNNING}),
        (row("a", "RETRYING", published_at=1), {"state": State.RETRYING}),
    ],
)
def test_an_answer_that_redis_lacks_is_told(found: Row, facts: dict[str, Any]) -> None:
    known = {name: getattr(STANDS, name) for name in Refused.__slots__}
    (told,) = answered(found, Refused(**known | facts))
    assert told.generation == found.generation


def test_an_end_is_told_to_whom_asked_again_with_the_number_of_that_sending() -> None:
    (told,) = answered(ENDED, STANDS, attempt=2)
    assert told.attempt == 2


def test_a_row_that_another_request_hid_in_redis_is_told_in_any_case() -> None:
    (told,) = answered(ENDED, STANDS, kind=VerdictKind.MISMATCH)
    assert told.restore
