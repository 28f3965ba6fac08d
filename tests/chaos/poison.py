"""Requests that hang, that kill whoever runs them, and that hold up the process they ran in."""

from __future__ import annotations

import os
import signal

from tests.chaos.figure import Figure
from tests.chaos.orders import Deed
from tests.chaos.pace import Rate
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene

WORKERS = 2
RATE = 40.0
WEDGED_RATE = 15.0
TIME_LIMIT_S = 2.0
# A limit, three times where it may run again, and the refills between.
HANG_TOLD_WITHIN_S = 20.0
WEDGED_TOLD_WITHIN_S = 40.0


def hang(scene: Scene) -> list[Figure]:
    """Have handlers hang, before their effect and in the middle of it."""
    _load(scene)
    waits_s = [
        float("inf") if ticket.wait_s is None else ticket.wait_s
        for ticket in scene.clients.tickets.values()
        if ticket.order.deed in (Deed.HANG, Deed.HANG_INSIDE)
    ]
    return [
        Figure("requests that hang", len(waits_s), least=1),
        Figure(
            "s until they were told",
            max(waits_s, default=0.0),
            most=HANG_TOLD_WITHIN_S,
            timed=True,
        ),
    ]


def crash_loop(scene: Scene) -> list[Figure]:
    """Have handlers kill their own process, before their effect and in the middle of it."""
    _load(scene)
    codes = scene.journal.codes()
    looped = sum(code == "CRASH_LOOP" for code in codes.values())
    deadly = [
        one
        for one, ticket in scene.clients.tickets.items()
        if ticket.order.deed in (Deed.DIE, Deed.DIE_INSIDE)
    ]
    return [
        Figure("requests that kill their child", len(deadly), least=1),
        Figure("ended as CRASH_LOOP", looped, least=1),
    ]


def wedged(scene: Scene) -> list[Figure]:
    """Have children stop reading: one request in fifty leaves a thread that holds its process up,
    and a child is stopped from outside."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(WEDGED_RATE))
    scene.flow(scene.size(10.0, short=3.0))
    for process in scene.fleet.alive:
        for pid in process.children()[:1]:
            os.kill(pid, signal.SIGSTOP)
    scene.pause(scene.size(30.0, short=8.0))
    scene.await_told()
    waits_s = [ticket.wait_s or 0.0 for ticket in scene.clients.tickets.values()]
    what = "s until the last was told"
    return [Figure(what, max(waits_s), most=WEDGED_TOLD_WITHIN_S, timed=True)]


def _load(scene: Scene) -> None:
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.pause(scene.size(40.0, short=8.0))
    scene.await_told()


ROWS = (
    Row(
        "hang",
        "one request in fifty hangs, and is cut by its time limit of 2 s",
        JournalKind.SQLITE,
        hang,
        troubles={Deed.HANG: 0.01, Deed.HANG_INSIDE: 0.01},
        time_limit_s=TIME_LIMIT_S,
    ),
    Row(
        "wedged",
        "one request in fifty holds up its process after its end; a child of each worker stopped",
        JournalKind.POSTGRES,
        wedged,
        troubles={Deed.WEDGE: 0.02},
        time_limit_s=TIME_LIMIT_S,
        tell_within_s=90.0,
    ),
    Row(
        "crash-loop",
        "one request in fifty kills the process that runs it",
        JournalKind.POSTGRES,
        crash_loop,
        troubles={Deed.DIE: 0.01, Deed.DIE_INSIDE: 0.01},
    ),
)
