"""The group in motion: workers join and leave, one stands still and wakes up, clocks are wrong."""

from __future__ import annotations

from contextlib import ExitStack

from feedback.clock import monotonic_s
from tests.chaos.figure import Figure
from tests.chaos.kafka import partitions_go_on
from tests.chaos.pace import Rate
from tests.chaos.place import DRAIN_TIMEOUT_S, LEASE_S, SESSION_TIMEOUT_S
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene
from tests.eventually import eventually
from tests.kit.program import KeptProgram
from tests.paused import paused
from tests.stack.clock import clock_off_by

WORKERS = 8
FEWEST = 3
EVERY_S = 1.0
RATE = 60.0
STANDS_STILL_S = max(SESSION_TIMEOUT_S, LEASE_S) + 4.0
GOES_ON_WITHIN_S = 60.0
CLOCK_OFF_BY_S = 300.0
SMALL = {"worker": {"processes": 1, "slots_per_process": 4}}


def group_churn(scene: Scene) -> list[Figure]:
    """Have a worker join or leave each second."""
    scene.start_workers(FEWEST)
    scene.clients.start(Rate(RATE))
    moves, began_s = scene.size(60, short=10), monotonic_s()
    leaving: list[KeptProgram] = []
    for number in range(moves):
        scene.pause(max(0.0, began_s + number * EVERY_S - monotonic_s()))
        staying = [process for process in scene.fleet.alive if not process.asked_to_end]
        # Who is told to end before it listens to signals just dies.
        working = [process for process in staying if process.events("worker.started")]
        can_join = len(staying) < WORKERS
        if len(working) > FEWEST and (not can_join or scene.random.random() < 0.5):
            leaving.append(scene.random.choice(working))
            leaving[-1].end()
        elif can_join:
            scene.fleet.start(wait=False)
    figures = partitions_go_on(scene)
    left = sum(process.ended(within_s=DRAIN_TIMEOUT_S) == 0 for process in leaving)
    return [
        *figures,
        Figure("workers that left", left, most=len(leaving), least=len(leaving)),
    ]


def zombie(scene: Scene) -> list[Figure]:
    """Stop a worker and its children past session and lease, and wake them."""
    workers = scene.start_workers(2)
    scene.clients.start(Rate(RATE))
    slowest_s = 0.0
    for _ in range(scene.size(4, short=1)):
        scene.pause(scene.size(5.0, short=3.0))
        victim = scene.random.choice(workers)
        with ExitStack() as still:
            for pid in (victim.pid, *victim.children()):
                still.enter_context(paused(pid))
            scene.pause(STANDS_STILL_S)
        slowest_s = max(slowest_s, _goes_on_after_s(scene, victim))
    scene.await_told()
    what = "s until a woken worker began a run again"
    return [Figure(what, slowest_s, most=GOES_ON_WITHIN_S, timed=True)]


def _goes_on_after_s(scene: Scene, worker: KeptProgram) -> float:
    # What its children had begun before they stood still is not counted.
    woken_s = monotonic_s()

    def begins_again() -> float | None:
        children = set(worker.children())
        begins = scene.bank_account().begins
        later = [one.at_s for one in begins if one.pid in children and one.at_s > woken_s]
        return min(later, default=None)

    try:
        first_s = eventually(begins_again, timeout_s=GOES_ON_WITHIN_S, interval_s=0.5)
    except TimeoutError:
        return float("inf")
    assert first_s is not None
    return first_s - woken_s


def clock_ahead(scene: Scene) -> list[Figure]:
    """Have one worker's clock 5 minutes ahead."""
    return _clock_off(scene, CLOCK_OFF_BY_S)


def clock_behind(scene: Scene) -> list[Figure]:
    """Have one worker's clock 5 minutes behind."""
    return _clock_off(scene, -CLOCK_OFF_BY_S)


def _clock_off(scene: Scene, seconds: float) -> list[Figure]:
    """Run beside a worker of another time, and kill first one of the two, then the other."""
    for victim in ("right", "wrong"):
        (right,) = scene.fleet.start()
        (wrong,) = scene.fleet.start(variables=clock_off_by(seconds))
        scene.clients.start(Rate(RATE))
        scene.pause(scene.size(10.0, short=3.0))
        (right if victim == "right" else wrong).kill()
        scene.pause(scene.size(15.0, short=8.0))
        scene.await_told()
        scene.fleet.end_all(DRAIN_TIMEOUT_S)
    return []


ROWS = (
    Row(
        "group-churn-eager",
        "workers joining and leaving each second for 60 s",
        JournalKind.POSTGRES,
        group_churn,
        settings=SMALL,
    ),
    Row(
        "group-churn-cooperative",
        "the same with the cooperative assignor",
        JournalKind.SQLITE,
        group_churn,
        settings=SMALL | {"kafka": {"assignor": "cooperative"}},
    ),
    Row(
        "zombie",
        "a worker stopped past its session and lease, then woken",
        JournalKind.POSTGRES,
        zombie,
    ),
    Row(
        "clock-ahead",
        "one worker's clock 5 minutes ahead; either worker killed",
        JournalKind.POSTGRES,
        clock_ahead,
    ),
    Row(
        "clock-behind",
        "one worker's clock 5 minutes behind; either worker killed",
        JournalKind.POSTGRES,
        clock_behind,
    ),
)
