"""The control: the same load without a fault, so that the other rows have something beside them."""

from __future__ import annotations

from feedback.status import State
from tests.chaos.figure import Figure
from tests.chaos.pace import Rate
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene

WORKERS = 2
RATE = 100.0


def no_fault(scene: Scene) -> list[Figure]:
    """Let the load run to its end."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE), most=scene.size(3_000, short=400))
    scene.clients.join()
    scene.await_told()
    in_doubt = len(scene.clients.told_as(State.IN_DOUBT))
    return [Figure("in doubt", in_doubt, most=0)]


ROWS = (Row("none", "no fault: the control", JournalKind.POSTGRES, no_fault),)
