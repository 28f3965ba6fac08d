"""The states of a request as a picture, with the one in which it stands. Pure.

The places are ours; that each arrow is one of the status rule's is a test.
"""

from __future__ import annotations

from typing import NamedTuple

from consumer.journal.records import JournalState
from feedback.status import State

BOX = (104, 26)
SIZE = (604, 156)
# Left upper corners, in the units of the picture.
PLACES = {
    State.PENDING: (0, 65),
    State.ACCEPTED: (140, 65),
    State.SKIPPED: (140, 0),
    State.EXPIRED: (140, 130),
    State.RUNNING: (320, 65),
    State.RETRYING: (320, 130),
    State.SUCCEEDED: (500, 0),
    State.IN_DOUBT: (500, 65),
    State.FAILED: (500, 130),
}
# What never ran is not drawn behind RUNNING: whether it ran is what a person asks.
ARROWS = (
    (State.PENDING, State.ACCEPTED),
    (State.ACCEPTED, State.SKIPPED),
    (State.ACCEPTED, State.EXPIRED),
    (State.ACCEPTED, State.RUNNING),
    (State.RUNNING, State.RETRYING),
    (State.RETRYING, State.EXPIRED),
    (State.RUNNING, State.SUCCEEDED),
    (State.RUNNING, State.IN_DOUBT),
    (State.RUNNING, State.FAILED),
    (State.IN_DOUBT, State.SUCCEEDED),
    (State.IN_DOUBT, State.FAILED),
)


class Arrow(NamedTuple):
    """A line from one point to another, in the units of the picture."""

    x1: float
    y1: float
    x2: float
    y2: float


def arrow(before: State, after: State) -> Arrow:
    """Return the line between two boxes: between their sides, or upwards or downwards.

    >>> arrow(State.PENDING, State.ACCEPTED)
    Arrow(x1=104, y1=78.0, x2=140, y2=78.0)
    >>> arrow(State.RUNNING, State.RETRYING)
    Arrow(x1=372.0, y1=91, x2=372.0, y2=130)
    """
    (x1, y1), (x2, y2), (width, height) = PLACES[before], PLACES[after], BOX
    if x1 == x2:
        is_down = y1 < y2
        begin, end = (y1 + height, y2) if is_down else (y1, y2 + height)
        return Arrow(x1 + width / 2, begin, x2 + width / 2, end)
    is_right = x1 < x2
    begin, end = (x1 + width, x2) if is_right else (x1, x2 + width)
    return Arrow(begin, y1 + height / 2, end, y2 + height / 2)


def standing(row: str | None, status: State | None) -> State | None:
    """Return the state of the picture in which a request stands; None where nobody knows.

    Args:
        row: its state in the journal, which counts; None for no row.
        status: what its client sees.

    >>> standing("CLAIMED", State.ACCEPTED), standing(None, State.LOST)
    (<State.RUNNING: 'RUNNING'>, None)
    """
    if row is not None:
        return State.RUNNING if row == JournalState.CLAIMED else State(row)
    return status if status in PLACES else None
