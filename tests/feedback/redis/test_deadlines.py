"""The due set: who takes what, what comes back, what is brought forward."""

import uuid
from contextlib import suppress
from typing import cast

import pytest
from redis import Redis

from feedback.redis.deadlines import Deadlines, TakenRequests
from feedback.redis.store import StatusStore
from feedback.status import State
from feedback.statuses import StatusWrite
from tests.eventually import eventually
from tests.feedback.samples import a_write

FAR_S = 1_000_000.0
LEASE_S = 60.0


@pytest.fixture
def deadlines(store: StatusStore) -> Deadlines:
    """Return the due set of a group nobody else uses."""
    return Deadlines(store)


def _now_ms(redis: Redis) -> int:
    seconds, micros = redis.time()
    return int(seconds * 1000 + micros // 1000)


def _due(store: StatusStore, *request_ids: str, in_s: float = -1.0) -> None:
    at = _now_ms(store.redis) + int(in_s * 1000)
    store.redis.zadd(store.deadlines_key, dict.fromkeys(request_ids, at))


def _look_in_s(store: StatusStore, request_id: str) -> float | None:
    score = store.redis.zscore(store.deadlines_key, request_id)
    return None if score is None else (score - _now_ms(store.redis)) / 1000


def _take(deadlines: Deadlines, limit: int = 100, lease_s: float = LEASE_S) -> TakenRequests:
    return deadlines.take(limit, lease_s=lease_s)


def test_what_is_due_is_taken_once_the_longest_overdue_first(
    store: StatusStore, deadlines: Deadlines
) -> None:
    _due(store, "young", in_s=-1)
    _due(store, "old", in_s=-3)
    _due(store, "middle", in_s=-2)
    _due(store, "later", in_s=60)
    assert _take(deadlines, 2).request_ids == ("old", "middle")
    assert _take(deadlines).request_ids == ("young",)
    assert _take(deadlines).request_ids == ()
    for one in ("old", "middle", "young"):
        look_s = _look_in_s(store, one)
        assert look_s is not None
        assert LEASE_S - 30 < look_s <= LEASE_S + 1


def test_no_two_resenders_take_the_same(store: StatusStore) -> None:
    _due(store, *(f"r{n}" for n in range(1000)))
    several = [Deadlines(store) for _ in range(4)]
    taken: list[str] = []
    while part := [one for each in several for one in _take(each, 70).request_ids]:
        taken += part
    assert len(taken) == 1000
    assert len(set(taken)) == 1000


def test_what_was_taken_and_not_settled_comes_back_as_unfinished(
    store: StatusStore, deadlines: Deadlines
) -> None:
    _due(store, "a")
    first = _take(deadlines, lease_s=0.05)
    assert first.unfinished == frozenset()
    again = eventually(lambda: _take(deadlines).request_ids and _take, timeout_s=30)
    assert again
    _due(store, "b")
    deadlines.settle(taken := _take(deadlines), {"b": 0.0}, fixed=True)
    assert taken.request_ids == ("b",)
    found = eventually(lambda: _take(deadlines).unfinished, timeout_s=30)
    assert found == {"b"}


def test_a_settled_look_is_set_and_is_no_longer_unfinished(
    store: StatusStore, deadlines: Deadlines
) -> None:
    _due(store, "a", "b")
    deadlines.settle(_take(deadlines), {"a": 500.0, "b": 0.0})
    look_s = _look_in_s(store, "a")
    assert look_s is not None
    assert 400 < look_s <= 501
    taken = eventually(lambda: (t := _take(deadlines)).request_ids and t, timeout_s=30)
    assert isinstance(taken, TakenRequests)
    assert (taken.request_ids, taken.unfinished) == (("b",), frozenset())


def test_whoever_lost_its_lease_changes_nothing(store: StatusStore, deadlines: Deadlines) -> None:
    _due(store, "a", "gone")
    late = _take(deadlines, lease_s=0.05)
    eventually(lambda: len(_take(deadlines).request_ids) == 2, timeout_s=30)
    store.redis.zrem(store.deadlines_key, "gone")
    before = _look_in_s(store, "a")
    assert before is not None
    deadlines.settle(late, {"a": FAR_S, "gone": FAR_S})
    deadlines.remove(late, ["a"])
    after = _look_in_s(store, "a")
    assert after is not None
    assert after <= before
    assert _look_in_s(store, "gone") is None


def test_members_that_are_no_request_ids_are_removed_and_counted(
    store: StatusStore, deadlines: Deadlines
) -> None:
    strays = [b"", b"\xff\xfe", b"with space", b"x" * 129, "ü".encode()]
    store.redis.zadd(store.deadlines_key, dict.fromkeys(strays, 1))
    _due(store, "right")
    taken = _take(deadlines)
    assert (taken.request_ids, taken.strays) == (("right",), len(strays))
    assert store.redis.zcard(store.deadlines_key) == 1


def test_what_ended_is_removed_and_what_was_reopened_meanwhile_is_put_back(
    store: StatusStore, deadlines: Deadlines
) -> None:
    for one in ("ended", "reopened", "forgotten", "failed"):
        store.write([a_write(State.PENDING, one)], look_at=1)
    store.write([a_write(State.SUCCEEDED, "ended")])
    _due(store, "ended")
    store.redis.delete(store.request_key("forgotten"))
    store.write([a_write(State.FAILED, "failed", fields={"resend": "1"})])
    _due(store, "failed")
    taken = _take(deadlines)
    deadlines.remove(taken, taken.request_ids)
    members = cast("list[bytes]", store.redis.zrange(store.deadlines_key, 0, -1))
    left = {one.decode() for one in members}
    assert left == {"reopened"}
    assert set(_take(deadlines).request_ids) == left


def test_what_was_reopened_keeps_its_look_though_whoever_removes_it_dies_in_the_middle(
    store: StatusStore, deadlines: Deadlines, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.write([a_write(State.PENDING, "reopened")], look_at=1)
    taken = _take(deadlines)
    # Its writer found it in the set, and left it there.
    store.write([a_write(State.PENDING, "reopened", attempt=2)], look_at=1)

    def dies(*given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(store, "read_many", dies)
    with suppress(KeyboardInterrupt):
        deadlines.remove(taken, ["reopened"])
    assert _look_in_s(store, "reopened") is not None


def test_every_entry_is_paged_with_its_look(store: StatusStore, deadlines: Deadlines) -> None:
    ids = {f"r{n}" for n in range(3000)}
    _due(store, *ids, in_s=100)
    store.redis.zadd(store.deadlines_key, {b"no id": 1})
    cursor, found = 0, dict[str, float]()
    while True:
        page = deadlines.page(cursor, 500)
        found |= page.looks
        if not (cursor := page.cursor):
            break
    assert found.keys() == ids
    assert all(60_000 < look_ms <= 101_000 for look_ms in found.values())


def test_lost_is_what_was_accepted_by_a_worker_without_a_heartbeat_or_by_none(
    store: StatusStore, deadlines: Deadlines
) -> None:
    def accepted(request_id: str, worker: str) -> StatusWrite:
        return a_write(State.ACCEPTED, request_id, fields={"worker": worker})

    writes = [accepted("alive", "w1"), accepted("dead", "w2"), accepted("given-up", "")]
    store.write([*writes, a_write(State.PENDING, "pending"), a_write(State.RUNNING, "running")])
    store.redis.set(store.request_key("no-hash"), "text")
    store.beat("w1", {})
    ids = ["unknown", "alive", "dead", "given-up", "pending", "running", "no-hash"]
    assert deadlines.lost_among(ids) == ["dead", "given-up"]
    assert deadlines.lost_among([]) == []


def test_looks_are_brought_forward_but_not_those_of_others_nor_of_nobody(
    store: StatusStore, deadlines: Deadlines
) -> None:
    _due(store, "taken", "put-off")
    taken = _take(deadlines)
    deadlines.settle(taken, {"put-off": 500.0}, fixed=True)
    _due(store, "far", "further", in_s=1000)
    _due(store, "near", in_s=5)
    assert deadlines.hasten(["further", "near", "absent"], look_s=100) == 1
    look_s = _look_in_s(store, "further")
    assert look_s is not None
    assert 50 < look_s <= 101
    assert deadlines.hasten(["far", "taken", "put-off", "absent"]) == 1
    assert _take(deadlines).request_ids == ("far",)
    assert _look_in_s(store, "absent") is None
    assert deadlines.hasten([]) == 0


def test_a_look_that_a_resender_has_set_far_ahead_is_no_clocks_fault(
    store: StatusStore, deadlines: Deadlines
) -> None:
    _due(store, "ours")
    deadlines.settle(_take(deadlines), {"ours": 3600.0})
    _due(store, "theirs", in_s=3600)
    assert deadlines.hasten(["ours", "theirs"], look_s=100, only_first=True) == 1
    look_s = _look_in_s(store, "ours")
    assert look_s is not None and look_s > 3500
    # Its worker dies.
    assert deadlines.hasten(["ours"]) == 1
    assert _take(deadlines).unfinished == frozenset()


def test_groups_do_not_share_a_set(redis: Redis, store: StatusStore) -> None:
    other = StatusStore(redis, f"other-{uuid.uuid4().hex}", _Settings())
    _due(store, "a")
    assert Deadlines(other).take(10, lease_s=1).request_ids == ()


class _Settings:
    url = ""
    heartbeat_ttl_s = 5.0
    timeout_s = 2.0
    secret = None

    def ttl_s(self, state: State) -> float:
        return 60.0
