"""Sending many: order, rate, what is in flight, and faults beside what is sent."""

from collections.abc import Callable, Iterator, Sequence

import pytest

from feedback.clock import monotonic_s
from feedback.errors import InvalidMessage, NotSent, PayloadMismatch, SendUnknown
from feedback.records.envelope import Record, decode_headers
from feedback.status import State
from feedback.statuses import Status
from producer_client import Client, ClientClosed, SendResult, Submission
from producer_client.sending.send_batches import BATCH, BATCHES_IN_FLIGHT
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeClient, MakeSettings
from tests.rounds import holds_in_one_round, in_time
from tests.standstill import standing_still

Records = Callable[[], list[Record]]


def _numbered(count: int) -> Iterator[Submission]:
    for number in range(count):
        yield Submission(b"%d" % number, request_id=f"r{number}")


def test_results_and_records_come_in_the_order_given(client: Client, records: Records) -> None:
    results = list(client.send_many(_numbered(1_000)))
    ids = [f"r{number}" for number in range(1_000)]
    assert [result.request_id for result in results] == ids
    assert all(result.sent and not result.unknown for result in results)
    found = records()
    assert [decode_headers(record).request_id for record in found] == ids
    assert [record.value for record in found] == [b"%d" % number for number in range(1_000)]
    assert {one.state for one in client.store.read_many(ids)} == {State.PENDING}


def test_only_a_bounded_number_is_taken_from_the_source_ahead_of_the_results(
    client: Client,
) -> None:
    taken = 0

    def counted() -> Iterator[Submission]:
        nonlocal taken
        for submission in _numbered(3_000):
            taken += 1
            yield submission

    ahead = [taken - done for done, _ in enumerate(client.send_many(counted()), 1)]
    assert len(ahead) == 3_000
    assert max(ahead) < BATCH * BATCHES_IN_FLIGHT


def test_nothing_is_sent_before_somebody_asks_for_results(client: Client, worker: Worker) -> None:
    client.send_many(_numbered(3))
    assert worker.traces() == []


def test_the_rate_is_kept_within_ten_percent(client: Client) -> None:
    client.send(b"the first send connects")

    def taken_s(count: int, rate: float | None) -> float:
        began_s = monotonic_s()
        assert sum(one.sent for one in client.send_many(_numbered(count), rate=rate)) == count
        return monotonic_s() - began_s

    def one_round() -> None:
        with standing_still() as stood:
            # So many that a processor's pause of half a second is within them as well.
            took_s = taken_s(1_000, 200)
        assert took_s > 900 / 200
        # Nobody keeps a rate that is above what his machine can do with batches of this size.
        most_s = 250 * min(taken_s(4, None) for _ in range(10))
        assert took_s - stood.total_s < max(1_100 / 200, 2 * most_s)

    holds_in_one_round(one_round, rounds=3)


def test_each_fault_stands_in_its_place_beside_what_was_sent(
    make_client: MakeClient, worker: Worker, records: Records
) -> None:
    client = make_client(max_request_bytes=2_000, send_timeout_s=4)
    client.send(b"first", request_id="taken")
    submissions = [
        Submission(b"1", request_id="good-1"),
        Submission(b"2", request_id="bad id"),
        Submission(b"3" * 2_001, request_id="large"),
        Submission(b"4", request_id="taken"),
        Submission(b"5", request_id="nowhere", topic="nowhere"),
        Submission(None),
        Submission(b"7", request_id="good-1"),
        Submission(b"8", request_id="good-2"),
    ]
    results = list(client.send_many(submissions))
    kinds = [type(result.error) for result in results]
    assert kinds == [
        type(None), InvalidMessage, NotSent, PayloadMismatch, NotSent, InvalidMessage,
        PayloadMismatch, type(None),
    ]  # fmt: skip
    ids = ["good-1", "bad id", "large", "taken", "nowhere", "", "good-1", "good-2"]
    assert [result.request_id for result in results] == ids
    assert [record.value for record in records()] == [b"first", b"1", b"8"]
    assert worker.store.read("large").state is State.UNKNOWN
    assert worker.store.read("nowhere").state is State.UNKNOWN
    assert worker.looked_at("large") is worker.looked_at("nowhere") is None


def test_known_requests_are_resent_and_those_that_ended_are_not(
    client: Client, worker: Worker, records: Records
) -> None:
    assert all(result.sent for result in client.send_many(_numbered(3)))
    worker.tell("r1", State.SUCCEEDED)
    assert all(result.sent for result in client.send_many(_numbered(4)))
    attempts = [(one.request_id, one.attempt) for one in map(decode_headers, records())]
    assert attempts == [("r0", 1), ("r1", 1), ("r2", 1), ("r0", 2), ("r2", 2), ("r3", 1)]


def test_what_the_source_gave_before_it_failed_is_sent_and_told(
    client: Client, records: Records
) -> None:
    def failing() -> Iterator[Submission]:
        yield from _numbered(BATCH + 2)
        raise ConnectionResetError("the source is gone")

    told: list[SendResult] = []
    with pytest.raises(ConnectionResetError, match="the source is gone"):
        told.extend(client.send_many(failing()))
    assert [result.sent for result in told] == [True] * (BATCH + 2)
    assert len(records()) == BATCH + 2


def test_an_absent_topic_costs_a_batch_one_timeout_and_leaves_no_trace(
    make_client: MakeClient, worker: Worker
) -> None:
    client = make_client(topic="nowhere", send_timeout_s=3)
    results = in_time(lambda: list(client.send_many(_numbered(50))), limit_s=4)
    assert {str(type(result.error).__name__) for result in results} == {"NotSent"}
    assert worker.traces() == []


def test_with_redis_away_each_is_told_and_only_a_new_id_as_not_sent(
    make_client: MakeClient, records: Records, refusing: str
) -> None:
    client = make_client(redis={"url": f"redis://{refusing}/0"})
    named = [Submission(b"v", request_id=f"r{n}") for n in range(5)]
    for submissions, told in ((named, SendUnknown), ([Submission(b"v")] * 5, NotSent)):
        results = list(client.send_many(submissions))
        assert {type(result.error) for result in results} == {told}
        assert all("Redis" in str(result.error) for result in results)
        assert [result.request_id for result in results] == [
            result.error.request_id
            for result in results
            if isinstance(result.error, NotSent | SendUnknown)
        ]
    assert records() == []


def test_what_came_before_a_pause_of_the_source_is_sent_and_told_during_it(client: Client) -> None:
    def pausing() -> Iterator[Submission | None]:
        yield Submission(b"1", request_id="r1")
        yield Submission(b"2", request_id="r2")
        yield None
        # Whoever asks for more has been told of the first two.
        assert told == ["r1", "r2"]
        yield None
        yield Submission(b"3", request_id="r3")

    told: list[str] = []
    for result in client.send_many(pausing()):
        assert result.sent
        told.append(result.request_id)
    assert told == ["r1", "r2", "r3"]


def test_a_closed_client_says_so_and_connects_to_nothing(client: Client, worker: Worker) -> None:
    handle = client.send(b"v", request_id="r1")
    client.close()
    payload, known = handle.payload, Status("r1", State.LOST)
    for call in (
        lambda: client.send(b"v"),
        lambda: client.send_many([Submission(b"v")]),
        lambda: client.resend("r1", payload, known=known),
        lambda: client.status("r1"),
        lambda: handle.wait(1),
        lambda: client.wait_many(["r1"]),
    ):
        with pytest.raises(ClientClosed, match="the client is closed"):
            call()
    client.close()
    assert worker.store.read("r1").attempt == 1


def test_what_a_closed_client_was_about_to_send_is_not_sent(client: Client) -> None:
    results = client.send_many(_numbered(600))
    first = next(results)
    client.close()
    rest = list(results)
    assert first.sent
    assert len(rest) == 599
    # Of an id that its caller named nobody can ask any more whether it was sent before.
    assert isinstance(rest[-1].error, NotSent | SendUnknown)


def test_an_id_whose_key_in_redis_is_no_status_harms_no_other_of_its_batch(
    client: Client, worker: Worker, records: Records
) -> None:
    redis = worker.store.redis
    redis.set(worker.store.request_key("r7"), "of another program")
    redis.hset(worker.store.request_key("r9"), "status", "TELEPORTED")
    redis.hset(worker.store.request_key("r11"), mapping={"status": "PENDING", "attempt": "many"})
    results = {one.request_id: one for one in client.send_many(_numbered(300))}
    odd = {name: results.pop(name).error for name in ("r7", "r9", "r11")}
    assert all(one.sent for one in results.values())
    assert len(records()) == 297
    # Nobody can say what was sent before under these ids.
    assert {type(one) for one in odd.values()} == {SendUnknown}
    assert "WRONGTYPE" in str(odd["r7"])
    assert "newer version" in str(odd["r9"])
    assert redis.get(worker.store.request_key("r7")) == b"of another program"


def test_a_key_that_becomes_another_program_s_before_its_pending_harms_no_other_of_its_batch(
    make_settings: MakeSettings, worker: Worker, records: Records, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Client(make_settings())
    read_many = client.store.read_many

    def then_taken(ids: Sequence[str]) -> list[Status]:
        found = read_many(ids)
        worker.store.redis.set(worker.store.request_key("r1"), "of another program")
        return found

    monkeypatch.setattr(client.store, "read_many", then_taken)
    with client:
        results = list(client.send_many(_numbered(3)))
    assert [type(one.error) for one in results] == [type(None), NotSent, type(None)]
    # Each PENDING was written once: a refused sending could still be taken back.
    assert not worker.store.redis.hexists(worker.store.request_key("r0"), "tellings")
    assert len(records()) == 2
