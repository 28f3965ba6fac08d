"""The scan for requests whose worker died: it sees all, at a pace, and knows when to wait."""

import pytest

from feedback.clock import epoch_ms, monotonic_s
from feedback.redis.deadlines import Deadlines, DuePage
from feedback.status import State
from feedback.statuses import StatusWrite
from producer_client.resender.lost_scan import ROUND_S, LostScan
from tests.eventually import eventually
from tests.producer_client.acting import Worker

COUNT = 2_500
FAR_MS = 100_000


@pytest.fixture
def scan(worker: Worker) -> LostScan:
    """Return a scan of the group."""
    return LostScan(Deadlines(worker.store), longest_look_s=1_000.0, far_look_s=50.0)


def _accepted(worker: Worker, holders: dict[str, str]) -> None:
    """Have requests accepted, each by the worker that is named."""
    writes = [
        StatusWrite(one, State.ACCEPTED, 1, 0, "a" * 64, {"worker": holder})
        for one, holder in holders.items()
    ]
    assert set(worker.store.write(writes, look_at=epoch_ms() + FAR_MS)) == {None}


def test_every_lost_request_of_many_pages_is_brought_forward_and_no_other(
    worker: Worker, scan: LostScan
) -> None:
    worker.store.beat("alive", {})
    worker.store.redis.persist(worker.store.worker_key("alive"))
    holders = {f"r{n}": "dead" if n % 5 == 0 else "alive" for n in range(COUNT)}
    _accepted(worker, holders)
    found = 0

    def all_found() -> bool:
        nonlocal found
        found += scan.turn()
        return found >= COUNT // 5

    eventually(all_found, timeout_s=60)
    due = worker.store.redis.zcount(worker.store.deadlines_key, "-inf", epoch_ms() + 1_000)
    assert (found, due) == (COUNT // 5, COUNT // 5)


class _Counted(Deadlines):
    pages = 0

    def page(self, cursor: int, size: int) -> DuePage:
        """Count what is asked for."""
        self.pages += 1
        return super().page(cursor, size)


def test_it_keeps_its_pace_however_often_it_is_asked(worker: Worker) -> None:
    _accepted(worker, {"r1": "alive"})
    deadlines = _Counted(worker.store)
    scan = LostScan(deadlines, longest_look_s=1_000.0, far_look_s=50.0)
    began_s = monotonic_s()
    while monotonic_s() - began_s < ROUND_S * 1.5:
        scan.turn()
    assert 1 <= deadlines.pages <= (monotonic_s() - began_s) / ROUND_S + 1


def test_it_trusts_no_missing_heartbeat_while_it_rests(worker: Worker, scan: LostScan) -> None:
    _accepted(worker, {"r1": "dead"})
    scan.rest(100.0)
    assert scan.turn() == 0
    assert scan.due_in_s() > 50
    assert scan.whole_round() == 1


def test_a_look_beyond_the_longest_is_brought_back(worker: Worker, scan: LostScan) -> None:
    store = worker.store
    store.redis.zadd(store.deadlines_key, {"far": epoch_ms() + 2_000_000})
    store.redis.zadd(store.deadlines_key, {"near": epoch_ms() + 900_000})
    scan.whole_round()
    assert (worker.looked_at("far") or 0) < epoch_ms() + 100_000
    assert (worker.looked_at("near") or 0) > epoch_ms() + 500_000
