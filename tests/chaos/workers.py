"""Workers that die: one that holds requests while a peer lives, and all of them at once."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace

from feedback.clock import monotonic_s
from feedback.status import State
from tests.chaos.figure import Figure
from tests.chaos.orders import Order
from tests.chaos.pace import Window
from tests.chaos.place import DRAIN_TIMEOUT_S
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene
from tests.eventually import eventually
from tests.kit.program import KeptProgram

HELD = 12
HELD_WITHIN_S = 30.0
TOLD_OR_RUN_WITHIN_S = 7.0
WORKERS = 2
PROCESSES = 2
SLOTS_PER_PROCESS = 16
SLOTS = PROCESSES * SLOTS_PER_PROCESS
OPEN = 4 * WORKERS * SLOTS
MANY_SLOTS = {"worker": {"processes": PROCESSES, "slots_per_process": SLOTS_PER_PROCESS}}


def worker_kill(scene: Scene) -> list[Figure]:
    """Kill the worker that holds twelve requests, some running, some waiting for a slot."""
    waits_s = [
        wait_s for number in range(scene.size(5, short=1)) for wait_s in _kill_holder(scene, number)
    ]
    return [
        Figure("requests held", len(waits_s), least=HELD),
        Figure("s until told or run again", max(waits_s), most=TOLD_OR_RUN_WITHIN_S, timed=True),
    ]


def _kill_holder(scene: Scene, number: int) -> list[float]:
    gate = f"gate-{number}"
    (holder,) = scene.fleet.start()
    orders = [
        replace(scene.orders.order(number * HELD + one), gate=gate, takes_ms=10)
        for one in range(HELD)
    ]
    scene.clients.send(orders)
    eventually(
        lambda: _held(scene, orders) == HELD,
        timeout_s=HELD_WITHIN_S,
        interval_s=0.1,
        what="twelve requests held",
    )
    # The partitions may go to the newcomer; what is held stays where it is.
    scene.fleet.start()
    killed_s = monotonic_s()
    holder.kill()
    scene.ask_bank("open", gate)
    scene.await_told()
    waits_s = _told_or_run(scene, orders, killed_s)
    scene.fleet.end_all(DRAIN_TIMEOUT_S)
    return waits_s


def _held(scene: Scene, orders: list[Order]) -> int:
    statuses = scene.client.store.read_many([one.request_id for one in orders])
    return sum(one.state in (State.ACCEPTED, State.RUNNING) for one in statuses)


def _told_or_run(scene: Scene, orders: list[Order], killed_s: float) -> list[float]:
    first_s = {one.request_id: float("inf") for one in orders}
    for begin in scene.bank_account().begins:
        if begin.request_id in first_s and begin.at_s >= killed_s:
            first_s[begin.request_id] = min(first_s[begin.request_id], begin.at_s)
    for request_id in first_s:
        told_s = scene.clients.tickets[request_id].told_s
        if told_s is not None:
            first_s[request_id] = min(first_s[request_id], told_s)
    return [at_s - killed_s for at_s in first_s.values()]


def all_workers_kill(scene: Scene) -> list[Figure]:
    """Kill all workers at once, at random moments, and start them again at once."""
    kills = 0
    for _ in _moments(scene):
        kills += scene.fleet.kill_all()
        scene.fleet.start(WORKERS, wait=False)
    scene.await_told()
    in_doubt = len(scene.clients.told_as(State.IN_DOUBT))
    return [
        Figure("workers killed", kills, least=scene.size(30, short=2)),
        Figure("in doubt, of what slots and kills allow", in_doubt, most=SLOTS * kills),
    ]


def sigterm(scene: Scene) -> list[Figure]:
    """Ask all workers to end, at random moments, and start others at once."""
    slowest_s, asked, unclean, cut = 0.0, 0, 0, 0
    for _ in _moments(scene):
        ended = scene.fleet.end_all(DRAIN_TIMEOUT_S + 10.0)
        scene.fleet.start(WORKERS, wait=False)
        asked += len(ended)
        slowest_s = max(slowest_s, *(took_s for _, took_s, _ in ended))
        unclean += sum(not _is_clean(process, code) for process, _, code in ended)
        cut += sum(
            int(event["cut"])
            for process, _, _ in ended
            for event in process.events("worker.stopped")
        )
    scene.await_told()
    in_doubt = len(scene.clients.told_as(State.IN_DOUBT))
    return [
        Figure("workers asked to end", asked, least=scene.size(30, short=2)),
        Figure("s until the slowest ended", slowest_s, most=DRAIN_TIMEOUT_S + 1.0, timed=True),
        Figure("ended otherwise than with 0 or 5", unclean, most=0),
        Figure("in doubt, of those that the deadline cut", in_doubt, most=cut),
    ]


def _is_clean(process: KeptProgram, code: int | None) -> bool:
    # The interpreter was still starting: it is no worker yet, and systemd calls that end clean.
    is_unborn = code == -signal.SIGTERM and not process.has_spoken
    return code in (0, 5) or is_unborn


def _moments(scene: Scene) -> Iterator[int]:
    """Yield at random moments of a load, when its clients have been told a random number."""
    count, total = scene.size(20, short=2), scene.size(100_000, short=800)
    scene.start_workers(WORKERS)
    scene.clients.start(Window(OPEN), most=total)
    due = sorted(scene.random.sample(range(total // 50, total - total // 50), count))
    for number in due:
        scene.await_progress(number)
        # Not at the moment of an end, at which nothing runs.
        scene.pause(scene.random.uniform(0.0, 0.2))
        yield number
    scene.clients.join()


ROWS = (
    Row(
        "worker-kill",
        "SIGKILL of a worker that holds 12 requests, while another lives",
        JournalKind.SQLITE,
        worker_kill,
        settings={"worker": {"processes": 2, "slots_per_process": 2}},
    ),
    Row(
        "all-workers-kill",
        "SIGKILL of every worker at once, 20 times at random in 100,000 requests",
        JournalKind.POSTGRES,
        all_workers_kill,
        settings=MANY_SLOTS,
    ),
    Row(
        "sigterm",
        "SIGTERM to every worker at once, 20 times at random in 100,000 requests",
        JournalKind.SQLITE,
        sigterm,
        settings=MANY_SLOTS,
    ),
)
