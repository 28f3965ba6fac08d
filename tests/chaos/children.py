"""Children that die: killed at random under load."""

from __future__ import annotations

import os
import signal
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from feedback.clock import monotonic_s
from feedback.status import State
from tests.bench.measure.figures import percentile
from tests.chaos.figure import Figure
from tests.chaos.pace import Window
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene
from tests.chaos.tickets import Ticket
from tests.eventually import eventually
from tests.kit.banking import Begin

PROCESSES = 8
SLOTS_PER_PROCESS = 2
OPEN = 4 * PROCESSES * SLOTS_PER_PROCESS
KILL_EVERY_S = 0.5
WARM_WITHIN_S = 120.0


@dataclass(frozen=True, slots=True)
class Kill:
    """A child that was killed, and when (monotonic)."""

    pid: int
    at_s: float


def child_kill(scene: Scene) -> list[Figure]:
    """Kill a random child every half second."""
    (worker,) = scene.start_workers(1)
    scene.clients.start(Window(OPEN))
    eventually(
        lambda: len({begin.pid for begin in scene.bank_account().begins}) >= PROCESSES,
        timeout_s=WARM_WITHIN_S,
        interval_s=0.5,
        what="a run in each child",
    )
    undisturbed = _told_each_s(scene, scene.size(15.0, short=4.0))
    kills: list[Kill] = []
    began_s, before = monotonic_s(), scene.clients.told
    for number in range(scene.size(80, short=12)):
        scene.pause(max(0.0, began_s + number * KILL_EVERY_S - monotonic_s()))
        pid = scene.random.choice(worker.children() or [0])
        if pid:
            kills.append(Kill(pid, monotonic_s()))
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    disturbed = (scene.clients.told - before) / (monotonic_s() - began_s)
    scene.await_told()
    waits_s = hit_waits(kills, scene.bank_account().begins, scene.clients.tickets)
    return [
        Figure("children killed", len(kills), least=scene.size(78, short=10)),
        Figure("requests hit", len(waits_s), least=1),
        Figure("s until a hit request was told, p99", _p99(waits_s), most=0.5, timed=True),
        Figure("told/s undisturbed", undisturbed),
        Figure(
            "share of it while children die",
            disturbed / max(undisturbed, 1.0),
            least=0.8,
            timed=True,
        ),
    ]


def hit_waits(
    kills: Sequence[Kill], begins: Sequence[Begin], tickets: Mapping[str, Ticket]
) -> list[float]:
    """Return for each request that a kill hit how long its client waited from then on.

    Hit is what the killed child had begun, and that ended in doubt or was begun again after it;
    one that was never told counts for ever.
    """
    killed = {kill.pid: kill.at_s for kill in kills}
    begun_at: defaultdict[str, list[float]] = defaultdict(list)
    for begin in begins:
        begun_at[begin.request_id].append(begin.at_s)
    waits_s = []
    for begin in begins:
        ticket = tickets.get(begin.request_id)
        kill_s = killed.get(begin.pid)
        if ticket is None or kill_s is None or not _was_open(ticket, kill_s):
            continue
        later = begun_at[begin.request_id]
        began_again = bisect_left(later, kill_s) < len(later)
        if began_again or ticket.told is State.IN_DOUBT or ticket.told is None:
            waits_s.append(float("inf") if ticket.told_s is None else ticket.told_s - kill_s)
    return waits_s


def _was_open(ticket: Ticket, at_s: float) -> bool:
    return ticket.told_s is None or ticket.told_s > at_s


def _told_each_s(scene: Scene, seconds: float) -> float:
    before, began_s = scene.clients.told, monotonic_s()
    scene.pause(seconds)
    return (scene.clients.told - before) / (monotonic_s() - began_s)


def _p99(waits_s: Sequence[float]) -> float:
    return percentile(waits_s, 99) if waits_s else 0.0


ROWS = (
    Row(
        "child-kill",
        "SIGKILL of a random child every 0.5 s for 40 s",
        JournalKind.POSTGRES,
        child_kill,
        settings={
            "worker": {
                "processes": PROCESSES,
                "slots_per_process": SLOTS_PER_PROCESS,
                "spare_processes": 1,
            }
        },
    ),
)
