"""A PENDING of an earlier start of Redis is marked as sent by its own record, and by no other.

The fake names no start of its server: there nothing is marked, as on a server that does not say.
"""

from typing import Any

import pytest
from fakeredis import FakeRedis

from feedback.records.envelope import (
    ATTEMPT,
    DEADLINE,
    GROUP,
    REOPENS,
    REQUEST_ID,
    Record,
    payload_sha256,
)
from feedback.redis.sent_marks import SentMarks
from feedback.redis.store import StatusStore
from feedback.status import State
from tests.feedback.samples import a_write

TOPIC, DEADLINE_AT = "orders", 1_900_000_000_000
EARLIER = "an-earlier-start"


def a_record(
    request_id: str = "r",
    *,
    topic: str = TOPIC,
    value: bytes = b"v",
    attempt: int = 1,
    deadline_at: int | None = DEADLINE_AT,
    reopens: int | None = None,
    group: str | None = None,
) -> Record:
    headers = [(REQUEST_ID, request_id.encode()), (ATTEMPT, b"%d" % attempt)]
    if deadline_at is not None:
        headers.append((DEADLINE, b"%d" % deadline_at))
    if reopens is not None:
        headers.append((REOPENS, b"%d" % reopens))
    if group is not None:
        headers.append((GROUP, group.encode()))
    return Record(topic, 0, 0, 0, b"k", value, tuple(headers))


def told(store: StatusStore, told_in: str = EARLIER, **fields: Any) -> None:
    """Write the PENDING of `a_record`, and the start at which it was told."""
    write = a_write(
        State.PENDING,
        payload_sha256=payload_sha256(b"k", b"v"),
        fields={"topic": TOPIC, "deadline_at": str(DEADLINE_AT)},
    )
    assert store.write([write]) == [None]
    store.redis.hset(store.request_key("r"), mapping={"told_in": told_in} | fields)


def told_in(store: StatusStore) -> str | None:
    return store.read("r").told_in


@pytest.fixture
def this_start(store: StatusStore) -> str | None:
    """Return the `run_id` of the server; None of the fake."""
    if isinstance(store.redis, FakeRedis):
        return None
    return str(store.redis.info("server")["run_id"])


def test_its_own_record_marks_it(store: StatusStore, this_start: str | None) -> None:
    told(store)
    before = store.read("r")
    marked = SentMarks(store).mark([a_record("other"), a_record()])
    assert marked == (["r"] if this_start else [])
    assert told_in(store) == (this_start or EARLIER)
    assert store.read("r").updated_at == before.updated_at
    # It is said once: the check comes by itself.
    assert SentMarks(store).mark([a_record()]) == []


def test_one_without_a_deadline_is_marked(store: StatusStore, this_start: str | None) -> None:
    told(store)
    store.redis.hdel(store.request_key("r"), "deadline_at")
    assert SentMarks(store).mark([a_record()]) == []
    marked = SentMarks(store).mark([a_record(deadline_at=None)])
    assert marked == (["r"] if this_start else [])


@pytest.mark.parametrize(
    "other",
    [
        {"topic": "elsewhere"},
        {"value": b"another"},
        {"attempt": 2},
        {"deadline_at": DEADLINE_AT + 1},
        {"deadline_at": None},
    ],
    ids=lambda other: next(iter(other)),
)
def test_the_record_of_another_sending_proves_nothing(
    store: StatusStore, other: dict[str, Any]
) -> None:
    told(store)
    assert SentMarks(store).mark([a_record(**other)]) == []
    assert told_in(store) == EARLIER


def test_a_failure_that_was_asked_for_again_is_marked_by_a_record_that_reopens_it(
    store: StatusStore, group: str, this_start: str | None
) -> None:
    told(store, attempt="2", generation="3")
    # A resend under way when it failed: its record is the same but for that.
    for reopens in (None, 0, 2):
        assert SentMarks(store).mark([a_record(attempt=2, reopens=reopens)]) == []
    assert SentMarks(store).mark([a_record(attempt=2, reopens=3, group="another")]) == []
    marked = SentMarks(store).mark([a_record(attempt=2, reopens=3, group=group)])
    assert marked == (["r"] if this_start else [])


def test_a_record_that_is_none_of_ours_is_passed_over(store: StatusStore) -> None:
    told(store)
    malformed = a_record()._replace(headers=((REQUEST_ID, b"r"), (ATTEMPT, b"none")))
    assert SentMarks(store).mark([malformed]) == []
    assert SentMarks(store).mark([]) == []
    store.redis.delete(store.request_key("r"))
    store.redis.lpush(store.request_key("r"), "another type")
    assert SentMarks(store).mark([a_record()]) == []


@pytest.mark.parametrize("state", [State.ACCEPTED, State.RUNNING, State.SUCCEEDED])
def test_what_is_no_longer_pending_stays(store: StatusStore, state: State) -> None:
    told(store, status=str(state))
    assert SentMarks(store).mark([a_record()]) == []


def test_nothing_appears_where_nothing_stood(store: StatusStore) -> None:
    assert SentMarks(store).mark([a_record()]) == []
    assert not store.redis.exists(store.request_key("r"))
    # One that names no start was told by a server that says none.
    told(store, told_in="")
    assert SentMarks(store).mark([a_record()]) == []
