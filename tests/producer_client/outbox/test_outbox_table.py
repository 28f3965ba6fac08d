"""Rows and lanes as relays share them: in order, by one at a time, and marked by nobody else."""

from collections import defaultdict
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Text, cast, func, insert, literal, select, true, update

from feedback.clock import monotonic_s
from feedback.records.envelope import Envelope, payload_sha256
from feedback.records.stored_payload import StoredPayload
from producer_client.outbox import writing
from producer_client.outbox.outbox_table import KafkaPlace, OutboxTable, RowBatch
from producer_client.outbox.row import columns_of, lane_of
from producer_client.outbox.tables import RowState, lane, row
from producer_client.submission import Prepared
from tests.producer_client.outbox.conftest import Rows

HERE = KafkaPlace(0, 7)


def request(
    name: str, *, key: bytes | None = b"k", topic: str = "t", value: bytes = b"v"
) -> Prepared:
    payload = StoredPayload(topic, key, value)
    return Prepared(Envelope(name, 1, 10**13), payload, payload_sha256(key, value), True)


@pytest.fixture
def tables(outbox_url: str) -> Iterator[list[OutboxTable]]:
    """Yield two relays' views of one group."""
    made = [OutboxTable(outbox_url, group="g", lease_s=30, timeout_s=10) for _ in range(2)]
    for one in made:
        one.prepare()
    yield made
    for one in made:
        one.close()


def write(user: Connection, *requests: Prepared, group: str = "g") -> None:
    for one in requests:
        writing.write(user, one, group=group)
    user.commit()


def take(table: OutboxTable, *, limit: int = 100, limit_bytes: int = 10**6) -> RowBatch | None:
    return table.take(limit=limit, limit_bytes=limit_bytes, resting=())


def ids(batch: RowBatch | None) -> list[str]:
    return [] if batch is None else [one.request.request_id for one in batch.rows]


def every(batch: RowBatch) -> dict[int, KafkaPlace]:
    return {one.id: HERE for one in batch.rows}


def test_rows_come_in_the_order_of_their_ids_and_never_to_two(
    tables: list[OutboxTable], user: Connection
) -> None:
    write(user, *(request(f"{n:03}", key=b"%d" % (n % 40)) for n in range(400)))
    got: list[tuple[str, bytes | None]] = []
    batches = []
    while True:
        taken = [one for one in (take(table, limit=64) for table in tables) if one is not None]
        if not taken:
            break
        for batch in taken:
            got += [(one.request.request_id, one.request.payload.key) for one in batch.rows]
        batches += taken
        for table, batch in zip(tables, taken, strict=False):
            assert len(table.settle(batch, sent=every(batch), parked={})) == len(batch.rows)
    assert sorted(name for name, _ in got) == [f"{n:03}" for n in range(400)]
    by_key = defaultdict(list)
    for name, key in got:
        by_key[key].append(name)
    assert all(names == sorted(names) for names in by_key.values())
    assert len(batches) > 6


def test_a_lane_is_one_relays_at_a_time(tables: list[OutboxTable], user: Connection) -> None:
    mine, other = tables
    write(user, request("a"), request("b"))
    batch = take(mine, limit=1)
    assert batch is not None
    assert ids(batch) == ["a"]
    assert take(other) is None
    assert take(mine) is None
    mine.settle(batch, sent=every(batch), parked={})
    assert ids(take(other)) == ["b"]


def test_whoever_lost_its_lane_marks_nothing(
    tables: list[OutboxTable], user: Connection, rows: Rows
) -> None:
    mine, other = tables
    write(user, request("a"))
    batch = take(mine)
    assert batch is not None
    user.execute(update(lane).values(lease_until=0))  # as if it had stood still
    user.commit()
    theirs = take(other)
    assert ids(theirs) == ["a"]
    assert mine.settle(batch, sent={}, parked={batch.rows[0].id: "no"}) == []
    mine.renew(batch)
    assert rows()[0]["state"] == "WAITING"
    assert take(mine) is None
    assert theirs is not None
    assert len(other.settle(theirs, sent=every(theirs), parked={})) == 1
    assert (rows()[0]["state"], rows()[0]["offset"]) == ("SENT", 7)


def test_what_is_not_settled_waits_on_and_what_is_parked_does_not(
    tables: list[OutboxTable], user: Connection, rows: Rows
) -> None:
    table = tables[0]
    write(user, request("a"), request("b"), request("c"))
    batch = take(table)
    assert batch is not None
    first, second, _ = batch.rows
    table.settle(batch, sent={first.id: KafkaPlace(None, None)}, parked={second.id: "x" * 900})
    assert [one["state"] for one in rows()] == ["SENT", "PARKED", "WAITING"]
    assert rows()[0]["partition"] is None
    assert len(rows()[1]["reason"]) == 500
    assert ids(take(table)) == ["c"]


def test_other_groups_and_resting_topics_are_left_alone(
    tables: list[OutboxTable], user: Connection
) -> None:
    table = tables[0]
    write(user, request("other"), group="h")
    assert take(table) is None
    write(user, request("rests", topic="away"), request("goes", topic="there"))
    batch = table.take(limit=10, limit_bytes=10**6, resting=["away"])
    assert ids(batch) == ["goes"]


def test_what_waits_for_a_resting_topic_is_not_read_past(
    tables: list[OutboxTable], user: Connection, outbox_url: str
) -> None:
    alone = OutboxTable(outbox_url, group="alone", lease_s=30, timeout_s=10)
    alone.prepare()
    going = [request(f"goes-{n}", key=b"%d" % n, topic="there") for n in range(10)]
    write(user, *going, group="alone")
    alone_s = _fastest_take_s(alone)
    alone.close()
    _write_backlog(user, "away", keys=1000, each=100)
    write(user, *going)
    took_s = _fastest_take_s(tables[0])
    # Alone it is a few ms; reading past them takes 100 on PostgreSQL and 450 on SQLite at best.
    assert took_s < 0.02 + 3 * alone_s


def _write_backlog(user: Connection, topic: str, *, keys: int, each: int) -> None:
    """Write rows that wait; the database itself makes all but the first of each key."""
    waiting = {"created_at": 1, "state": RowState.WAITING}
    firsts = [
        columns_of(request(f"{n}", key=b"%d" % n, topic=topic), group="g") | waiting
        for n in range(keys)
    ]
    user.execute(insert(row), firsts)
    numbers = select(literal(1).label("n")).cte("numbers", recursive=True)
    numbers = numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < each - 1))
    copied = [row.c[name] for name in firsts[0] if name != "request_id"]
    name_of_copy = row.c.request_id + "-" + cast(numbers.c.n, Text)
    copies = (
        select(name_of_copy, *copied)
        .where(row.c.topic == topic)
        .join_from(row, numbers, true())
        .order_by(numbers.c.n, row.c.id)
    )
    user.execute(insert(row).from_select(["request_id", *copied], copies))
    written = user.execute(select(func.count()).where(row.c.topic == topic)).scalar_one()
    assert written == keys * each


def _fastest_take_s(table: OutboxTable) -> float:
    """Return how long the shortest of some looks for what goes takes, in seconds."""
    took_s: list[float] = []
    for _ in range(10):
        began_s = monotonic_s()
        batch = table.take(limit=500, limit_bytes=10**7, resting=["away"])
        took_s.append(monotonic_s() - began_s)
        assert batch is not None
        assert {one.request.payload.topic for one in batch.rows} == {"there"}
        table.settle(batch, sent={}, parked={})
    return min(took_s)


def test_a_lane_with_many_topics_has_them_all_sent_in_order(
    tables: list[OutboxTable], user: Connection
) -> None:
    table = tables[0]
    names = [f"t{n}-{at}" for at in range(2) for n in range(600)]
    write(user, *(request(name, topic=name.partition("-")[0]) for name in names))
    seen: list[str] = []
    while (batch := take(table, limit=64)) is not None:
        assert len(batch.rows) <= 64
        seen += ids(batch)
        table.settle(batch, sent=every(batch), parked={})
    assert sorted(seen) == sorted(names)
    for n in range(600):
        assert [one for one in seen if one.startswith(f"t{n}-")] == [f"t{n}-{k}" for k in range(2)]


def test_a_batch_is_bounded_in_bytes_but_never_empty(
    tables: list[OutboxTable], user: Connection
) -> None:
    write(user, *(request(str(n), value=b"x" * 1000) for n in range(5)))
    batch = take(tables[0], limit_bytes=2500)
    assert ids(batch) == ["0", "1", "2"]
    assert batch is not None
    tables[0].settle(batch, sent=every(batch), parked={})
    assert ids(take(tables[0], limit_bytes=1)) == ["3"]


def test_a_topics_rows_are_parked_some_at_a_time_but_for_what_a_relay_has_in_hand(
    tables: list[OutboxTable], user: Connection, rows: Rows
) -> None:
    mine, other = tables
    write(user, *(request(f"{n}", key=b"%d" % n, topic="gone") for n in range(20)))
    write(user, request("stays", topic="there"))
    held = mine.take(limit=1, limit_bytes=10**6, resting=["there"])
    assert held is not None
    assert other.park("gone", reason="x" * 900, most=5) == 5
    parked = [one for one in rows() if one["state"] == "PARKED"]
    assert {one["topic"] for one in parked} == {"gone"}
    assert {one["lane"] for one in parked}.isdisjoint(held.lanes)
    assert len(parked[0]["reason"]) == 500
    left = sum(one["topic"] == "gone" and one["lane"] not in held.lanes for one in rows()) - 5
    assert other.park("gone", reason="why", most=100) == left
    assert other.park("gone", reason="why", most=100) == 0
    assert other.waits_for("gone")
    mine.settle(held, sent={}, parked={})
    assert other.park("gone", reason="why", most=100) == 20 - 5 - left
    assert not other.waits_for("gone")
    assert ids(take(mine)) == ["stays"]


def test_pruning_takes_what_was_sent_and_nothing_else(
    tables: list[OutboxTable], user: Connection, rows: Rows
) -> None:
    table = tables[0]
    write(user, request("a"), request("b"), request("c"))
    batch = take(table)
    assert batch is not None
    table.settle(batch, sent={batch.rows[0].id: HERE}, parked={batch.rows[1].id: "why"})
    assert table.prune(keep_s=3600) == 0
    standing = table.standing()
    assert (standing.waiting, standing.parked) == (1, 1)
    assert 0 <= standing.oldest_ms < 60_000
    assert table.prune(keep_s=-1) == 1
    assert [one["request_id"] for one in rows()] == ["b", "c"]


def test_a_request_without_a_key_has_its_lane_by_its_id() -> None:
    lanes = {lane_of("t", None, str(n)) for n in range(500)}
    assert lanes == set(range(32))
    assert lane_of("t", b"k", "a") == lane_of("t", b"k", "b")


def test_rows_of_a_group_without_a_relay_are_seen(
    tables: list[OutboxTable], user: Connection, outbox_url: str
) -> None:
    write(user, request("a"))
    for group in ("another", "served", "z"):
        write(user, request("b"), request("c"), group=group)
    served = OutboxTable(outbox_url, group="served", lease_s=30, timeout_s=10)
    served.prepare()
    served.close()
    assert tables[0].unserved_groups() == ["another", "z"]
