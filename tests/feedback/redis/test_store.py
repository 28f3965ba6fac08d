"""The store's contract: the same for a real Redis and for the fake."""

import json
import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
from redis import Redis
from redis.client import Pipeline

from feedback.clock import epoch_ms
from feedback.records.stored_payload import StoredPayload
from feedback.redis.deadlines import Deadlines
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import FINAL, STORED, RefusalReason, State
from feedback.statuses import Origin, Refused, Replaced, Status, StatusWrite
from tests.feedback.samples import OTHER_SHA, PAYLOAD, SHA, a_write, wipe

HOSTILE_IDS = [
    "a}b{c",
    "}",
    "{}",
    "*",
    "|",
    "a|b|c|d|e",
    "!" * 128,
    "request:{r}",
    "../..",
    "%s\\0",
]


def told(store: StatusStore, *writes: StatusWrite) -> list[Refused | None]:
    return store.write(writes)


def looked_at(store: StatusStore) -> dict[str, float]:
    """Return the resender's set: the next look at each request."""
    found = cast(Any, store.redis.zrange(store.deadlines_key, 0, -1, withscores=True))
    return {name.decode(): score for name, score in found}


def test_every_field_is_read_as_it_was_written(store: StatusStore) -> None:
    result = {"geprüft": ["ja", 1.5, None], "emoji": "✓"}
    before = epoch_ms()
    fields = {
        "code": "CARD_DECLINED",
        "message": "Karte gesperrt: bitte prüfen \u2603 \U0001f4b3",
        "result": json.dumps(result),
        "worker": "host-1-x",
        "resend": "1",
        "by": "other",
        "due_at": "1700000000001",
        "deadline_at": "1700000000002",
        "topic": "payments",
        "partition": "0",
        "offset": str(2**40),
        "effect_kind": "external",
        "in_doubt": "query",
        "voids": "1",
    }
    assert told(store, a_write(State.FAILED, attempt=3, generation=2, fields=fields)) == [None]
    found = store.read("r")
    assert found.updated_at is not None
    assert before <= found.updated_at <= epoch_ms()
    assert found == Status(
        request_id="r",
        state=State.FAILED,
        attempt=3,
        generation=2,
        code="CARD_DECLINED",
        message=fields["message"],
        result=result,
        worker="host-1-x",
        resend=True,
        by="other",
        due_at=1700000000001,
        updated_at=found.updated_at,
        deadline_at=1700000000002,
        payload_sha256=SHA,
        topic="payments",
        partition=0,
        offset=2**40,
        effect_kind="external",
        in_doubt="query",
        voids=1,
    )


def test_the_time_of_a_status_is_the_servers_whatever_its_writers_clocks_say(
    store: StatusStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[int | None] = []
    for state, clock_ms in ((State.PENDING, 10**15), (State.RUNNING, 1), (State.SUCCEEDED, 10**15)):
        monkeypatch.setattr(
            "feedback.clock.time",
            SimpleNamespace(time_ns=lambda ms=clock_ms: ms * 10**6, monotonic=time.monotonic),
        )
        assert told(store, a_write(state)) == [None]
        times.append(store.read("r").updated_at)
    seconds, micros = store.redis.time()
    assert times == sorted(times, key=lambda one: one or 0)
    assert 1000 * seconds + micros // 1000 - 60_000 < (times[0] or 0)
    assert (times[-1] or 0) <= 1000 * seconds + micros // 1000


@pytest.mark.parametrize("state", STORED)
def test_each_state_reads_as_it_was_written(store: StatusStore, state: State) -> None:
    store.beat("w", {})
    told(store, a_write(state, fields={"worker": "w"}))
    assert store.read("r").state is state


def test_a_request_nobody_told_of_is_unknown(store: StatusStore) -> None:
    assert store.read("r") == Status("r", State.UNKNOWN)


def test_a_field_that_is_empty_reads_as_one_that_is_missing(store: StatusStore) -> None:
    names = ("code", "message", "result", "worker", "by", "due_at", "deadline_at", "offset")
    told(store, a_write(State.RUNNING, "empty", fields=dict.fromkeys(names, "")))
    told(store, a_write(State.RUNNING, "missing"))
    empty, missing = store.read_many(["empty", "missing"])
    for name in (*names, "resend"):
        assert getattr(empty, name) == getattr(missing, name)
        assert not getattr(missing, name)


@pytest.mark.parametrize("value", [None, False, 0, "", "null", [], {"a": {"b": [1]}}])
def test_a_result_is_any_json(store: StatusStore, value: object) -> None:
    told(store, a_write(State.SUCCEEDED, fields={"result": json.dumps(value)}))
    assert store.read("r").result == value


def test_many_are_read_in_the_order_asked_for(store: StatusStore) -> None:
    told(store, a_write(State.PENDING, "a"), a_write(State.RUNNING, "c"))
    found = store.read_many(["c", "b", "a", "c"])
    assert [one.request_id for one in found] == ["c", "b", "a", "c"]
    states = [one.state for one in found]
    assert states == [State.RUNNING, State.UNKNOWN, State.PENDING, State.RUNNING]
    assert store.read_many([]) == []
    assert store.write([]) == []


def test_a_refused_write_says_why_and_what_stands_there(store: StatusStore) -> None:
    told(store, a_write(State.FAILED, attempt=2, generation=3, fields={"resend": "1"}))
    late = a_write(State.RUNNING, generation=1)
    other = a_write(State.SUCCEEDED, "s", payload_sha256=OTHER_SHA)
    assert told(store, late, a_write(State.PENDING, "s"), other) == [
        Refused(RefusalReason.GENERATION, State.FAILED, 2, 3, True),
        None,
        Refused(RefusalReason.PAYLOAD, State.PENDING, 1, 0, False),
    ]
    assert store.read("r").state is State.FAILED


def test_writes_of_one_request_in_a_batch_are_applied_in_their_order(store: StatusStore) -> None:
    way = [State.PENDING, State.ACCEPTED, State.RUNNING, State.SUCCEEDED, State.RUNNING]
    refused = told(store, *(a_write(state) for state in way))
    assert [one and one.reason for one in refused] == [None, None, None, None, RefusalReason.STATE]
    assert store.read("r").state is State.SUCCEEDED


def test_a_write_that_was_taken_may_be_repeated(store: StatusStore) -> None:
    done = a_write(State.SUCCEEDED, fields={"result": "1"})
    assert told(store, done) == told(store, done) == [None]


def test_a_status_shows_only_its_own_outcome(store: StatusStore) -> None:
    due = {"code": "BUSY", "message": "later", "due_at": "5", "worker": "w1"}
    told(store, a_write(State.RETRYING, fields=due))
    told(store, a_write(State.RUNNING, generation=2, fields={"worker": "w2"}))
    found = store.read("r")
    assert (found.code, found.message, found.due_at) == (None, None, None)
    assert (found.state, found.worker) == (State.RUNNING, "w2")


def test_a_reopened_request_keeps_its_generation_and_its_coordinates(store: StatusStore) -> None:
    fields = {"code": "TIMEOUT", "resend": "1", "topic": "payments", "offset": "7"}
    told(store, a_write(State.FAILED, generation=4, fields=fields))
    told(store, a_write(State.PENDING, attempt=2))
    found = store.read("r")
    assert (found.state, found.code, found.resend) == (State.PENDING, None, False)
    assert (found.attempt, found.generation, found.offset) == (2, 4, 7)


def test_a_status_and_its_payload_expire_together(redis: Redis, group: str) -> None:
    store = StatusStore(redis, group, RedisSection(status_ttl_s=100))
    told(store, a_write(State.PENDING, payload=PAYLOAD))
    keys = [store.request_key("r"), store.payload_key("r")]
    assert all(99_000 < redis.pttl(key) <= 100_000 for key in keys)
    later = StatusStore(redis, group, RedisSection(status_ttl_s=200))
    told(later, a_write(State.RUNNING))
    assert all(199_000 < redis.pttl(key) <= 200_000 for key in keys)


def test_an_outcome_is_kept_for_its_own_time_and_what_is_open_for_that_of_all(
    redis: Redis, group: str
) -> None:
    section = RedisSection(status_ttl_s=100, outcome_ttl_s={"SUCCEEDED": 10, "FAILED": 200})
    store = StatusStore(redis, group, section)
    for state, ttl_s in (
        (State.RUNNING, 100),
        (State.SUCCEEDED, 10),
        (State.FAILED, 200),
        (State.EXPIRED, 100),
    ):
        told(store, a_write(State.PENDING, state, payload=PAYLOAD))
        told(store, a_write(state, state, fields={"resend": "1"}))
        assert 1000 * ttl_s - 5000 < redis.pttl(store.request_key(state)) <= 1000 * ttl_s
    # What a resend needs is there for as long as the failure that allows it.
    assert 195_000 < redis.pttl(store.payload_key(State.FAILED)) <= 200_000


def test_a_doubt_keeps_its_status_until_it_is_resolved(redis: Redis, group: str) -> None:
    section = RedisSection(status_ttl_s=100, outcome_ttl_s={"SUCCEEDED": 10})
    store = StatusStore(redis, group, section)
    told(store, a_write(State.IN_DOUBT))
    assert redis.pttl(store.request_key("r")) > 90 * 365 * 86_400_000
    told(store, a_write(State.SUCCEEDED))
    assert redis.pttl(store.request_key("r")) <= 10_000


def test_a_refused_write_does_not_prolong_a_status(redis: Redis, group: str) -> None:
    told(StatusStore(redis, group, RedisSection(status_ttl_s=100)), a_write(State.SUCCEEDED))
    late = StatusStore(redis, group, RedisSection(status_ttl_s=200))
    assert told(late, a_write(State.RUNNING)) != [None]
    assert redis.pttl(late.request_key("r")) <= 100_000


def test_each_change_is_published_and_a_refused_write_is_not(store: StatusStore) -> None:
    with store.redis.pubsub() as pubsub:  # type: ignore[no-untyped-call]
        pubsub.subscribe(store.events_channel("r"))
        assert pubsub.get_message(timeout=60)["type"] == "subscribe"
        told(store, a_write(State.PENDING), a_write(State.PENDING, "another"))
        told(store, a_write(State.SUCCEEDED))
        told(store, a_write(State.RUNNING))
        told(store, a_write(State.SUCCEEDED))
        heard = [pubsub.get_message(timeout=60)["data"] for _ in range(3)]
        assert heard == [b"PENDING", b"SUCCEEDED", b"SUCCEEDED"]


@pytest.mark.parametrize(
    "payload",
    [
        StoredPayload("t", None, b"v"),
        StoredPayload("t", b"", b"v"),
        StoredPayload("t", b"k", None),
        StoredPayload("t", b"k", b""),
        StoredPayload("t", b"\n\x00\xff", bytes(range(256)) * 40, (("h", b"\n\x00"), ("h", b""))),
    ],
)
def test_a_kept_payload_comes_back_byte_by_byte(store: StatusStore, payload: StoredPayload) -> None:
    assert store.kept_payload("r") is None
    told(store, a_write(State.PENDING, payload=payload))
    assert store.kept_payload("r") == payload


@pytest.mark.parametrize("state", [State.ACCEPTED, State.RUNNING, State.RETRYING])
def test_a_payload_is_kept_while_the_request_is_open(store: StatusStore, state: State) -> None:
    told(store, a_write(State.PENDING, payload=PAYLOAD), a_write(state))
    assert store.kept_payload("r") == PAYLOAD


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_payload_is_dropped_at_a_status_that_cannot_be_reopened(
    store: StatusStore, state: State
) -> None:
    told(store, a_write(State.PENDING, payload=PAYLOAD), a_write(state, fields={"resend": "0"}))
    assert store.kept_payload("r") is None


def test_a_payload_is_kept_for_a_failure_that_a_resend_may_help(store: StatusStore) -> None:
    failed = a_write(State.FAILED, fields={"resend": "1"})
    told(store, a_write(State.PENDING, payload=PAYLOAD), failed)
    assert store.kept_payload("r") == PAYLOAD


def test_a_refused_write_leaves_the_payload_alone(store: StatusStore) -> None:
    told(store, a_write(State.RUNNING, generation=2, payload=PAYLOAD))
    told(store, a_write(State.FAILED), a_write(State.PENDING, payload_sha256=OTHER_SHA))
    assert store.kept_payload("r") == PAYLOAD


def test_a_restored_status_keeps_nothing_of_the_other_payload(store: StatusStore) -> None:
    fields = {"deadline_at": "9", "code": "X", "worker": "w9", "offset": "3"}
    told(store, a_write(State.ACCEPTED, attempt=7, fields=fields, payload=PAYLOAD))
    row = a_write(State.RUNNING, payload_sha256=OTHER_SHA, restore=True, fields={"worker": "w1"})
    assert told(store, row) == [None]
    found = store.read("r")
    assert found == Status(
        "r",
        State.RUNNING,
        attempt=1,
        generation=1,
        worker="w1",
        payload_sha256=OTHER_SHA,
        updated_at=found.updated_at,
    )
    assert store.kept_payload("r") is None
    assert store.redis.pttl(store.request_key("r")) > 0


def test_open_requests_enter_the_set_of_the_resender_once(store: StatusStore) -> None:
    store.write([a_write(State.PENDING, "a"), a_write(State.ACCEPTED, "b")], look_at=100)
    store.write([a_write(State.ACCEPTED, "a")], look_at=200)
    assert looked_at(store) == {"a": 100, "b": 100}


@pytest.mark.parametrize("late", [State.ACCEPTED, State.FAILED])
def test_whoever_asks_again_while_a_late_word_is_refused_is_looked_after(
    store: StatusStore, monkeypatch: pytest.MonkeyPatch, late: State
) -> None:
    """Asked again after any trip of the late word: if the client dies then, a resender sends it."""
    told(store, a_write(State.FAILED, generation=2, fields={"resend": "1"}))
    asked = a_write(State.PENDING, attempt=2, reopens=2)
    trips: list[list[str]] = []
    execute = Pipeline.execute

    def and_ask(pipe: Any, **how: Any) -> list[Any]:
        trips.append([str(command[0][0]) for command in pipe.command_stack])
        replies = execute(pipe, **how)
        if len(trips) == 1:
            assert store.write([asked], look_at=200) == [None]
        return replies

    monkeypatch.setattr(Pipeline, "execute", and_ask)
    (refused,) = store.write([a_write(late, generation=1)], look_at=100)
    assert refused is not None and refused.reason is RefusalReason.GENERATION
    assert (store.read("r").state, looked_at(store)) == (State.PENDING, {"r": 200})
    assert trips[:2] == [["EVALSHA"]] * 2


def test_without_a_look_nothing_enters_the_set(store: StatusStore) -> None:
    told(store, a_write(State.RUNNING))
    assert looked_at(store) == {}


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_request_that_cannot_be_reopened_leaves_the_set(store: StatusStore, state: State) -> None:
    store.write([a_write(State.PENDING, "a"), a_write(State.PENDING, "b")], look_at=100)
    told(store, a_write(state, "a", fields={"resend": "0"}))
    assert looked_at(store) == {"b": 100}


def test_a_failure_leaves_the_set_until_somebody_asks_for_it_again(store: StatusStore) -> None:
    store.write([a_write(State.PENDING)], look_at=100)
    told(store, a_write(State.FAILED, fields={"resend": "1"}))
    assert looked_at(store) == {}
    store.write([a_write(State.PENDING, attempt=2, reopens=1)], look_at=200)
    assert looked_at(store) == {"r": 200}


def test_an_ending_told_late_does_not_take_a_reopened_request_from_the_resender(
    store: StatusStore,
) -> None:
    store.write([a_write(State.RUNNING, generation=2)], look_at=100)
    assert told(store, a_write(State.FAILED, generation=1)) != [None]
    assert list(looked_at(store)) == ["r"]


def test_a_resend_of_what_has_ended_does_not_enter_the_set(store: StatusStore) -> None:
    told(store, a_write(State.SUCCEEDED))
    refused = store.write([a_write(State.PENDING, attempt=2)], look_at=100)
    assert refused == [Refused(RefusalReason.GENERATION, State.SUCCEEDED, 1, 1, False)]
    assert looked_at(store) == {}


@pytest.mark.parametrize(
    ("batch", "stays"),
    [
        ([a_write(State.PENDING), a_write(State.SUCCEEDED)], False),
        ([a_write(State.FAILED), a_write(State.RUNNING, generation=2)], True),
        ([a_write(State.RUNNING, generation=2), a_write(State.FAILED)], True),
    ],
)
def test_the_last_write_of_a_batch_decides_about_the_set(
    store: StatusStore, batch: Sequence[StatusWrite], stays: bool
) -> None:
    store.write(batch, look_at=100)
    assert list(looked_at(store)) == (["r"] if stays else [])


def test_accepted_is_lost_when_its_worker_has_no_heartbeat(store: StatusStore) -> None:
    told(store, a_write(State.ACCEPTED, fields={"worker": "w1"}))
    assert store.read("r").state is State.LOST
    store.beat("w1", {"running": 1})
    assert store.read("r").state is State.ACCEPTED
    store.end_heartbeat("w1")
    assert store.read("r").state is State.LOST


def test_a_heartbeat_is_read_with_its_age_and_one_that_has_ended_is_none(
    store: StatusStore,
) -> None:
    store.beat("w1", {"slots": 2})
    found = store.heartbeats(["w1", "w2"])
    assert list(found) == ["w1"]
    value, age_s = found["w1"]
    assert value == b'{"slots": 2}'
    assert 0 <= age_s < 5
    store.end_heartbeat("w1")
    assert store.heartbeats(["w1"]) == store.heartbeats([]) == {}


def test_accepted_is_lost_when_its_worker_gave_it_up(store: StatusStore) -> None:
    store.beat("w1", {})
    told(store, a_write(State.ACCEPTED, fields={"worker": "w1"}))
    given_up = {"worker": "", "code": "JOURNAL_UNAVAILABLE"}
    assert told(store, a_write(State.ACCEPTED, fields=given_up, held_by="w1")) == [None]
    found = store.read("r")
    assert (found.state, found.code, found.worker) == (State.LOST, "JOURNAL_UNAVAILABLE", None)
    told(store, a_write(State.ACCEPTED, fields={"worker": "w1"}))
    assert (store.read("r").state, store.read("r").code) == (State.ACCEPTED, None)


def test_a_worker_does_not_clear_the_name_of_the_next_owner(store: StatusStore) -> None:
    told(store, a_write(State.ACCEPTED, fields={"worker": "w2"}))
    (refused,) = told(store, a_write(State.ACCEPTED, fields={"worker": ""}, held_by="w1"))
    assert refused is not None
    assert refused.reason is RefusalReason.WORKER
    assert store.read("r").worker == "w2"


def test_lost_is_told_apart_request_by_request(store: StatusStore) -> None:
    store.beat("alive", {})
    workers = {"a": "alive", "b": "dead", "c": ""}
    told(store, *(a_write(State.ACCEPTED, i, fields={"worker": w}) for i, w in workers.items()))
    told(store, a_write(State.RUNNING, "d", fields={"worker": "dead"}))
    states = [one.state for one in store.read_many("abcd")]
    assert states == [State.ACCEPTED, State.LOST, State.LOST, State.RUNNING]


def test_a_heartbeat_tells_the_load_and_ends_by_itself(redis: Redis, group: str) -> None:
    store = StatusStore(redis, group, RedisSection(heartbeat_ttl_s=7))
    store.beat("w1", {"running": 2, "buffered": 0})
    key = store.worker_key("w1")
    assert json.loads(cast(bytes, redis.get(key))) == {"running": 2, "buffered": 0}
    assert 6_000 < redis.pttl(key) <= 7_000


def forget(store: StatusStore, request_id: str = "r", **facts: Any) -> bool:
    """Forget what `a_write(PENDING, fields={"deadline_at": "9"})` has told."""
    given: dict[str, Any] = {"attempt": 1, "payload_sha256": SHA, "deadline_at": 9}
    return store.forget(request_id, **given | facts)


def pending(request_id: str = "r", **facts: Any) -> StatusWrite:
    """Return the first status of a request, as its sending tells it."""
    given = {"fields": {"deadline_at": "9"}, "payload": PAYLOAD} | facts
    return a_write(State.PENDING, request_id, **given)


def test_forgetting_leaves_no_trace(store: StatusStore) -> None:
    store.write([pending("r"), pending("s")], look_at=1)
    assert forget(store)
    assert store.read("r").state is State.UNKNOWN
    assert store.kept_payload("r") is None
    assert looked_at(store) == {"s": 1}
    keys = cast(list[bytes], store.redis.keys(f"{store.prefix}*"))
    assert not [key for key in keys if b"{r}" in key]
    assert not forget(store)


@pytest.mark.parametrize(
    "since",
    [
        a_write(State.ACCEPTED),
        a_write(State.RUNNING),
        a_write(State.SUCCEEDED),
        pending(attempt=2),
        pending(fields={"deadline_at": "10"}),
    ],
    ids=["accepted", "running", "succeeded", "sent-again", "another-sending"],
)
def test_what_others_told_since_is_not_forgotten(store: StatusStore, since: StatusWrite) -> None:
    store.write([pending()], look_at=1)
    assert told(store, since) == [None]
    before = store.read("r"), store.kept_payload("r"), looked_at(store)
    assert not forget(store)
    assert (store.read("r"), store.kept_payload("r"), looked_at(store)) == before


def test_what_a_resender_has_leased_is_not_forgotten(store: StatusStore) -> None:
    store.write([pending()], look_at=1)
    deadlines = Deadlines(store)
    taken = deadlines.take(10, lease_s=5)
    assert not forget(store)
    assert store.kept_payload("r") == PAYLOAD
    deadlines.settle(taken, {"r": 30})
    assert forget(store)
    assert store.read("r").state is State.UNKNOWN


def test_a_resender_that_slept_tells_nothing_of_what_was_taken_back_meanwhile(
    store: StatusStore,
) -> None:
    store.write([pending()], look_at=1)
    deadlines = Deadlines(store)
    deadlines.settle(deadlines.take(10, lease_s=5), {"r": 30})  # by another, that sent nothing
    assert forget(store)
    (refused,) = store.write([pending(attempt=2, payload=None, follows=1)], look_at=1)
    assert refused is not None
    assert (refused.reason, refused.nothing_stands) == (RefusalReason.TAKEN_BACK, True)
    assert store.redis.keys(f"{store.prefix}*") == []


def test_a_resender_that_slept_does_not_open_a_failure_again_that_was_put_back_meanwhile(
    store: StatusStore,
) -> None:
    told(store, a_write(State.FAILED, fields={"resend": "1"}))
    (replaced,) = store.replace([resend()], look_at=1)
    assert forget(store, attempt=2, replaced=replaced)
    (refused,) = told(store, resend(attempt=3, payload=None, reopens=1, follows=2))
    assert refused is not None
    assert (refused.reason, refused.state) == (RefusalReason.TAKEN_BACK, State.FAILED)
    assert store.read("r").state is State.FAILED


def test_whoever_found_nothing_tells_only_of_what_is_kept_still_and_stands_nowhere(
    store: StatusStore,
) -> None:
    blind = pending(payload=None, follows=0)
    (refused,) = told(store, blind)
    assert refused is not None
    assert (refused.reason, refused.nothing_stands) == (RefusalReason.TAKEN_BACK, True)
    assert store.redis.keys(f"{store.prefix}*") == []
    told(store, pending())
    (refused,) = told(store, blind)
    assert refused is not None
    assert (refused.reason, refused.state) == (RefusalReason.TAKEN_BACK, State.PENDING)
    # Redis has thrown its status away, and nothing else.
    store.redis.delete(store.request_key("r"))
    assert told(store, blind) == [None]
    assert (store.read("r").state, store.kept_payload("r")) == (State.PENDING, PAYLOAD)


def test_what_another_start_was_told_of_is_not_sent_by_whoever_only_read_it(
    redis_url: str, group: str
) -> None:
    store = StatusStore(connect(RedisSection(url=redis_url)), group, RedisSection())
    now = epoch_ms()

    def is_taken(
        attempt: int = 1, generation: int = 0, *, told_in: str | None = "another", left_s: int = 60
    ) -> bool:
        """Tell PENDING, and then the next attempt of who has read that."""
        wipe(store, "r")
        fields = {"deadline_at": str(now + 1000 * left_s), "generation": str(generation)}
        told(store, pending(attempt=attempt, fields=fields))
        if told_in is not None:
            store.redis.hset(store.request_key("r"), "told_in", told_in)
        before = store.read("r")
        (refused,) = told(store, pending(attempt=attempt + 1, payload=None, follows=attempt))
        if refused is not None:
            assert (refused.reason, refused.state) == (RefusalReason.TAKEN_BACK, State.PENDING)
            assert store.read("r") == before
        return refused is None

    assert not is_taken()
    assert not is_taken(left_s=-3000)
    assert not is_taken(attempt=2, generation=1)
    assert is_taken(told_in=None)
    assert is_taken(told_in="")
    # It was sent before, or can only expire.
    assert is_taken(attempt=2)
    assert is_taken(left_s=-3600)
    store.close()


def test_a_state_of_a_newer_version_is_refused_by_itself_and_the_rest_of_its_batch_is_taken(
    store: StatusStore,
) -> None:
    told(store, a_write(State.RUNNING), a_write(State.RUNNING, "s"))
    store.redis.hset(store.request_key("r"), "status", "TELEPORTED")
    for write in (resend(), a_write(State.SUCCEEDED), a_write(State.SUCCEEDED, generation=2)):
        refused, taken = told(store, write, a_write(State.SUCCEEDED, "s"))
        assert refused is not None
        assert (refused.state, refused.nothing_stands, taken) == (State.UNKNOWN, False, None)
    assert store.redis.hget(store.request_key("r"), "status") == b"TELEPORTED"


def raw_hash(store: StatusStore) -> dict[bytes, bytes]:
    """Return what stands in Redis, but for the time of the last change."""
    found = cast(dict[bytes, bytes], store.redis.hgetall(store.request_key("r")))
    found.pop(b"updated_at", None)
    return found


@pytest.mark.parametrize("deadlines", [("9", "10"), ("9", "9")], ids=["two-times", "one-time"])
@pytest.mark.parametrize("fails_first", [0, 1], ids=["the-first-fails", "the-second-fails"])
def test_of_two_sendings_at_once_the_one_that_fails_takes_nothing_from_the_other(
    store: StatusStore, deadlines: tuple[str, str], fails_first: int
) -> None:
    for deadline_at in deadlines:
        told(store, pending(fields={"deadline_at": deadline_at}))
        store.redis.zadd(store.deadlines_key, {"r": 1})
    fails, stays = deadlines[fails_first], deadlines[1 - fails_first]
    assert not forget(store, deadline_at=int(fails))
    status = store.read("r")
    assert (status.state, status.deadline_at) == (State.PENDING, int(stays))
    assert store.kept_payload("r") == PAYLOAD
    assert looked_at(store) == {"r": 1}
    # When the other fails as well nobody has sent it.
    assert forget(store, deadline_at=int(stays))
    assert store.redis.keys(f"{store.prefix}*") == []


def test_a_sending_that_told_nothing_takes_nothing_back(store: StatusStore) -> None:
    told(store, pending(), pending(fields={"deadline_at": "10"}))
    before = raw_hash(store)
    assert not forget(store, deadline_at=11)
    assert raw_hash(store) == before


def test_many_sendings_at_once_are_counted_up_to_a_limit_and_then_none_takes_it_away(
    store: StatusStore,
) -> None:
    times = range(1_700_000_000_000, 1_700_000_000_100)
    told(store, *(pending(fields={"deadline_at": str(one)}) for one in times))
    assert len(raw_hash(store)[b"tellings"]) < 300
    assert not any(forget(store, deadline_at=one) for one in times)
    assert store.read("r").state is State.PENDING


def test_what_counts_the_sendings_goes_with_the_next_status(store: StatusStore) -> None:
    told(store, pending(), pending(fields={"deadline_at": "10"}), a_write(State.ACCEPTED))
    assert not forget(store)
    assert b"tellings" not in raw_hash(store)


BEFORE_A_RESEND = [
    a_write(State.ACCEPTED, fields={"worker": "w", "deadline_at": "9", "offset": "5"}),
    a_write(State.ACCEPTED, fields={"worker": "", "code": "JOURNAL_UNAVAILABLE"}),
    a_write(State.PENDING, fields={"deadline_at": "9", "topic": "payments"}),
    a_write(
        State.FAILED,
        generation=3,
        fields={"resend": "1", "code": "BUSY", "message": "später: 12:-\n", "result": "[1]"},
    ),
]


def resend(**facts: Any) -> StatusWrite:
    """Return the PENDING of a second attempt."""
    given: dict[str, Any] = {"attempt": 2, "fields": {"deadline_at": "9", "topic": "payments"}}
    return pending(**given | facts)


@pytest.mark.parametrize("stands", BEFORE_A_RESEND, ids=["lost", "given-up", "pending", "failed"])
def test_a_resend_that_failed_puts_back_what_stood_before_it(
    store: StatusStore, stands: StatusWrite
) -> None:
    told(store, stands)
    before, updated_at = raw_hash(store), store.read("r").updated_at
    (replaced,) = store.replace([resend()], look_at=1)
    assert isinstance(replaced, Replaced)
    assert store.read("r").attempt == 2
    assert forget(store, attempt=2, replaced=replaced)
    assert raw_hash(store) == before
    assert store.read("r").updated_at == updated_at
    assert store.kept_payload("r") == PAYLOAD


GIVEN_UP = a_write(State.ACCEPTED, fields={"code": "NO", "worker": ""}, held_by="w1")


def test_a_request_that_was_given_up_during_resends_that_failed_reads_as_lost(
    store: StatusStore,
) -> None:
    store.beat("w1", {})
    told(store, a_write(State.ACCEPTED, fields={"worker": "w1"}))
    answers = [*store.replace([resend()]), *store.replace([resend(attempt=3)])]
    (refused,) = told(store, GIVEN_UP)
    assert refused is not None
    assert refused.reason is RefusalReason.ATTEMPT
    assert (store.read("r").state, store.read("r").attempt) == (State.PENDING, 3)
    assert forget(store, attempt=3, replaced=answers[1])
    assert forget(store, attempt=2, replaced=answers[0])
    status = store.read("r")
    assert (status.state, status.attempt, status.worker) == (State.LOST, 1, "w1-disowned")


@pytest.mark.parametrize(
    "late",
    [
        a_write(State.ACCEPTED, fields={"worker": "w2"}),
        a_write(State.ACCEPTED, fields={"worker": "w1"}),
        a_write(State.RUNNING, generation=1, fields={"worker": "w1"}),
        a_write(State.RETRYING, generation=1, fields={"worker": "w1"}),
        GIVEN_UP._replace(held_by="w2"),
        GIVEN_UP._replace(payload_sha256=OTHER_SHA),
        a_write(State.FAILED, generation=0, fields={"code": "PAYLOAD_GONE"}, held_by="w1"),
    ],
    ids=["accepted", "again", "runs", "retries", "given-up", "of-another-payload", "gone"],
)
def test_no_other_word_of_the_attempt_before_changes_who_has_it(
    store: StatusStore, late: StatusWrite
) -> None:
    store.beat("w1", {})
    told(store, a_write(State.ACCEPTED, fields={"worker": "w1"}))
    (replaced,) = store.replace([resend()])
    before = raw_hash(store)
    assert told(store, late) != [None]
    assert raw_hash(store) == before
    assert forget(store, attempt=2, replaced=replaced)
    assert store.read("r").state is State.ACCEPTED


def test_who_accepts_a_request_that_was_given_up_meanwhile_is_not_taken_for_nobody(
    store: StatusStore,
) -> None:
    told(store, a_write(State.ACCEPTED, fields={"worker": "w1"}))
    (replaced,) = store.replace([resend()])
    told(store, GIVEN_UP, a_write(State.ACCEPTED, fields={"worker": "w2"}), GIVEN_UP)
    assert forget(store, attempt=2, replaced=replaced)
    gone = a_write(State.FAILED, fields={"code": "PAYLOAD_GONE", "resend": "0"}, held_by="")
    (refused,) = told(store, gone)
    assert refused is not None
    assert refused.reason is RefusalReason.WORKER
    told(store, a_write(State.ACCEPTED, fields={"worker": "w2"}))
    assert store.read("r").worker == "w2"


@pytest.mark.parametrize(("reopens", "is_marked"), [(None, False), (0, False), (1, True)])
def test_what_was_sent_before_a_failure_says_nothing_of_who_has_it_since(
    store: StatusStore, reopens: int | None, is_marked: bool
) -> None:
    told(store, a_write(State.FAILED, generation=1, fields={"resend": "1", "worker": "w1"}))
    told(store, resend(attempt=3))
    told(store, GIVEN_UP._replace(reopens=reopens))
    assert store.read("r").worker == ("w1-disowned" if is_marked else "w1")


def test_a_failure_does_not_stand_again_while_a_resender_may_send_what_asked_for_it(
    store: StatusStore,
) -> None:
    told(store, a_write(State.FAILED, fields={"resend": "1"}))
    (replaced,) = store.replace([resend()], look_at=1)
    assert Deadlines(store).take(10, lease_s=5).request_ids == ("r",)
    assert not forget(store, attempt=2, replaced=replaced)
    assert store.read("r").state is State.PENDING


@pytest.mark.parametrize(
    "since",
    [
        a_write(State.ACCEPTED, attempt=2, fields={"worker": "w"}),
        a_write(State.RUNNING, attempt=2),
        a_write(State.SUCCEEDED),
        resend(attempt=3),
    ],
    ids=["accepted", "running", "succeeded", "sent-again"],
)
def test_a_resend_that_failed_puts_nothing_back_over_what_was_told_since(
    store: StatusStore, since: StatusWrite
) -> None:
    told(store, a_write(State.ACCEPTED))
    (replaced,) = store.replace([resend()])
    assert told(store, since) == [None]
    before = raw_hash(store)
    assert not forget(store, attempt=2, replaced=replaced)
    assert raw_hash(store) == before


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in-order", "the-other-way-round"])
def test_of_two_resends_at_once_the_last_that_fails_puts_back_what_stood_before_both(
    store: StatusStore, order: tuple[int, int]
) -> None:
    told(store, a_write(State.ACCEPTED, fields={"worker": "w", "deadline_at": "9"}))
    before = raw_hash(store)
    answers = [*store.replace([resend()]), *store.replace([resend()])]
    assert answers[1] == Replaced(b"")
    first, last = (answers[at] for at in order)
    assert not forget(store, attempt=2, replaced=first)
    assert store.read("r").state is State.PENDING
    assert forget(store, attempt=2, replaced=last)
    assert raw_hash(store) == before


def test_a_resend_that_nobody_knows_what_it_replaced_is_the_only_trace_of_its_request(
    store: StatusStore,
) -> None:
    told(store, a_write(State.ACCEPTED, fields={"worker": "w", "deadline_at": "9"}))
    answers = [*store.replace([resend(payload=PAYLOAD)], look_at=1), *store.replace([resend()])]
    assert not forget(store, attempt=2, replaced=answers[0])
    # What that left to the other goes with the next attempt.
    (replaced,) = store.replace([resend(attempt=3)])
    assert forget(store, attempt=3, replaced=replaced)
    assert not forget(store, attempt=2, replaced=answers[1])
    status = store.read("r")
    assert (status.state, status.attempt) == (State.PENDING, 2)
    assert store.kept_payload("r") == PAYLOAD
    assert looked_at(store) == {"r": 1}


def test_what_is_put_back_is_published(store: StatusStore) -> None:
    told(store, a_write(State.ACCEPTED))
    (replaced,) = store.replace([resend()])
    with store.redis.pubsub() as pubsub:  # type: ignore[no-untyped-call]
        pubsub.subscribe(store.events_channel("r"))
        assert pubsub.get_message(timeout=60)["type"] == "subscribe"
        forget(store, attempt=2, replaced=replaced)
        assert pubsub.get_message(timeout=60)["data"] == b"ACCEPTED"


def test_another_payload_under_the_same_id_is_not_forgotten(store: StatusStore) -> None:
    store.write([pending()])
    assert not forget(store, payload_sha256=OTHER_SHA)
    assert store.read("r").state is State.PENDING


def test_a_failure_that_was_opened_again_is_not_forgotten(store: StatusStore) -> None:
    failed = a_write(State.FAILED, generation=3, fields={"resend": "1"})
    told(store, failed, pending(attempt=2))
    assert not forget(store, attempt=2)
    assert store.read("r").state is State.PENDING


ORIGIN = Origin("payments", 3, 17, 9)


def test_an_outcome_says_where_its_request_came_from_when_nobody_said_it_before(
    store: StatusStore,
) -> None:
    nothing = a_write(State.SUCCEEDED, "nothing", origin=ORIGIN, fields={"result": "1"})
    only_pending = a_write(State.SUCCEEDED, "pending", origin=ORIGIN)
    assert told(store, pending("pending")) == [None]
    assert told(store, nothing, only_pending) == [None, None]
    for found in store.read_many(["nothing", "pending"]):
        where = found.topic, found.partition, found.offset, found.deadline_at
        assert where == ("payments", 3, 17, 9)
    assert store.read("nothing").result == 1


def test_an_outcome_does_not_say_again_where_its_request_came_from(store: StatusStore) -> None:
    told(store, a_write(State.ACCEPTED, fields={"topic": "t", "partition": "0", "offset": "1"}))
    told(store, a_write(State.SUCCEEDED, origin=ORIGIN))
    found = store.read("r")
    assert (found.topic, found.partition, found.offset) == ("t", 0, 1)


def test_the_first_journal_of_a_group_stands(store: StatusStore) -> None:
    assert store.agree_on_journal("one") == "one"
    assert store.agree_on_journal("two") == "one"
    assert store.agree_on_journal("one") == "one"
    assert store.redis.get(store.journal_key) == b"one"
    assert store.redis.pttl(store.journal_key) == -1


def test_groups_do_not_see_each_other(redis: Redis, group: str) -> None:
    one, two = (StatusStore(redis, f"{group}-{name}", RedisSection()) for name in "12")
    one.write([a_write(State.SUCCEEDED)], look_at=1)
    one.beat("w", {})
    assert two.read("r").state is State.UNKNOWN
    assert told(two, a_write(State.ACCEPTED, fields={"worker": "w"})) == [None]
    assert two.read("r").state is State.LOST


def test_hostile_request_ids_are_only_names(store: StatusStore) -> None:
    writes = [
        a_write(State.ACCEPTED, one, fields={"message": one}, payload=StoredPayload(one, b"", None))
        for one in HOSTILE_IDS
    ]
    assert store.write(writes, look_at=5) == [None] * len(writes)
    for one, found in zip(HOSTILE_IDS, store.read_many(HOSTILE_IDS), strict=True):
        assert (found.request_id, found.message, found.state) == (one, one, State.LOST)
        kept = store.kept_payload(one)
        assert kept is not None
        assert kept.topic == one
    assert set(looked_at(store)) == set(HOSTILE_IDS)
    assert not forget(store, "*", deadline_at=None)
    assert store.read("|").state is State.LOST
    (refused,) = told(store, a_write(State.PENDING, "a|b|c|d|e"))
    assert refused == Refused(RefusalReason.STATE, State.ACCEPTED, 1, 0, False)


def test_the_keys_are_those_of_the_contract(redis: Redis) -> None:
    store = StatusStore(redis, "g", RedisSection())
    assert store.request_key("r") == "onceward:g:request:{r}"
    assert store.payload_key("r") == "onceward:g:payload:{r}"
    assert store.events_channel("r") == "onceward:g:events:{r}"
    assert store.deadlines_key == "onceward:g:deadlines"
    assert store.worker_key("w") == "onceward:g:worker:w"
    assert store.journal_key == "onceward:g:journal"


def test_the_hash_has_the_fields_of_the_contract_as_text(store: StatusStore) -> None:
    told(store, a_write(State.RUNNING, attempt=2, fields={"worker": "w", "offset": "12"}))
    found = cast(dict[bytes, bytes], store.redis.hgetall(store.request_key("r")))
    assert found.pop(b"updated_at").isdigit()
    assert found == {
        b"status": b"RUNNING",
        b"attempt": b"2",
        b"generation": b"1",
        b"payload_sha256": SHA.encode(),
        b"worker": b"w",
        b"offset": b"12",
    }


def test_a_server_that_forgot_the_script_is_told_it_again(store: StatusStore) -> None:
    store.write([a_write(State.PENDING)], look_at=1)
    store.redis.script_flush()
    assert store.write([a_write(State.ACCEPTED), a_write(State.PENDING, "s")], look_at=2) == [
        None,
        None,
    ]
    assert looked_at(store) == {"r": 1, "s": 2}


def test_a_batch_of_many_requests_is_one_call(store: StatusStore) -> None:
    ids = [f"request-{number}" for number in range(256)]
    told(store, *(a_write(State.PENDING, one, payload=PAYLOAD) for one in ids))
    assert {one.state for one in store.read_many(ids)} == {State.PENDING}
