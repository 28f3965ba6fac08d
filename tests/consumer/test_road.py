"""The way of a request on real servers, from its client to its outcome (docs: How it works)."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from sqlalchemy.engine import RowMapping

from feedback.records.envelope import payload_sha256
from feedback.status import State
from producer_client import PayloadMismatch
from tests.consumer.foreign import identity
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.feedback.samples import wipe
from tests.stack import Servers
from tests.stack.postgres import fresh_database

HANDLERS = ("work", "marked", "coroutine", "booking", "flaky")
TRACEPARENT = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def road(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Stage]:
    """Yield a stage with one worker of two slots that has every handler."""
    folder = tmp_path_factory.mktemp("road")
    with ExitStack() as stack:
        url = f"sqlite:///{folder}/journal.db"
        if request.param == "postgres":
            url = stack.enter_context(fresh_database(servers.postgres, f"road_{time.time_ns()}"))
        stage = stack.enter_context(
            open_stage(servers=servers, journal_url=url, folder=folder, handlers=HANDLERS)
        )
        stage.execute("CREATE TABLE booking (request_id VARCHAR(128))")
        stage.start()
        yield stage


def row_of(stage: Stage, request_id: str) -> RowMapping:
    row = stage.row(request_id)
    assert row is not None
    return row


def test_a_request_ends_in_its_handlers_result_and_all_who_tell_of_it_agree(road: Stage) -> None:
    handle = road.client.send({"answer": {"paid": 5}}, topic=road.topics["work"], key="card-1")
    status = handle.wait(30)
    assert (status.state, status.result) == (State.SUCCEEDED, {"paid": 5})
    (run,) = road.runs(handle.request_id)
    row = eventually(lambda: (row := row_of(road, handle.request_id))["published_at"] and row)
    assert (row["state"], row["result"], row["generation"]) == ("SUCCEEDED", '{"paid":5}', 1)
    assert (row["message_key"], row["attempt"]) == (b"card-1", 1)
    assert (row["topic"], row["partition"], row["offset"]) == (
        status.topic,
        status.partition,
        status.offset,
    )
    assert row["owner"] == status.worker
    assert row["payload_sha256"] == status.payload_sha256
    assert row["deadline_at"] == status.deadline_at
    assert road.committed(row["topic"], row["partition"]) > row["offset"]
    assert run["generation"] == 1


def test_a_resend_is_answered_from_the_journal_and_not_run(road: Stage) -> None:
    handle = road.client.send({"answer": 1}, topic=road.topics["work"])
    handle.wait(60)
    wipe(road.client.store, handle.request_id)
    road.produce(b'{"answer":1}', headers=identity(handle.request_id, attempt=2))
    status = road.final(handle.request_id)
    assert (status.state, status.result, status.attempt) == (State.SUCCEEDED, 1, 2)
    assert len(road.runs(handle.request_id)) == 1
    assert road.history(handle.request_id) == []


def test_a_waiting_client_finds_the_outcome_again_after_redis_forgot_it(road: Stage) -> None:
    handle = road.client.send({"answer": 2}, topic=road.topics["work"])
    handle.wait(60)
    wipe(road.client.store, handle.request_id)
    assert handle.wait(60).result == 2
    assert len(road.runs(handle.request_id)) == 1


def test_a_record_without_an_id_is_named_by_its_coordinates_and_processed(road: Stage) -> None:
    sent = road.produce(b'{"answer":"foreign"}', key=b"k")
    status = road.final(sent.coordinates_id)
    assert (status.state, status.result) == (State.SUCCEEDED, "foreign")
    assert (status.topic, status.partition, status.offset) == sent[:3]
    assert len(road.runs(sent.coordinates_id)) == 1


def test_the_trace_context_reaches_the_handler(road: Stage) -> None:
    handle = road.client.send({}, topic=road.topics["work"], headers=[("traceparent", TRACEPARENT)])
    handle.wait(60)
    assert road.runs(handle.request_id)[0]["traceparent"] == TRACEPARENT.decode()


def test_a_resend_of_what_runs_is_answered_running_and_not_run_twice(road: Stage) -> None:
    gate = road.gate()
    body = json.dumps({"gate": gate.path}, separators=(",", ":"))
    handle = road.client.send(body, topic=road.topics["work"])
    road.seen(handle.request_id, State.RUNNING)
    road.produce(body.encode(), headers=identity(handle.request_id, attempt=2))
    eventually(lambda: handle.status().attempt == 2)
    assert handle.status().state is State.RUNNING
    gate.open()
    assert handle.wait(60).state is State.SUCCEEDED
    assert len(road.runs(handle.request_id)) == 1


def test_a_rejection_is_final_and_carries_the_handlers_own_code(road: Stage) -> None:
    handle = road.client.send({"do": "reject"}, topic=road.topics["work"])
    status = handle.wait(60)
    assert (status.state, status.code) == (State.FAILED, "CARD_EXPIRED")
    assert (status.message, status.resend) == ("the card has expired", False)
    road.produce(b'{"do":"reject"}', headers=identity(handle.request_id, attempt=2))
    eventually(lambda: handle.status().attempt == 2)
    assert len(road.runs(handle.request_id)) == 1


def test_a_declared_error_may_be_resent_and_runs_again_as_the_next_generation(road: Stage) -> None:
    handle = road.client.send({"amount": 1}, topic=road.topics["flaky"])
    failed = handle.wait(60)
    assert (failed.state, failed.code, failed.resend) == (State.FAILED, "HANDLER_ERROR", True)
    again = road.client.send(
        {"amount": 1}, topic=road.topics["flaky"], request_id=failed.request_id
    )
    status = road.seen(again.request_id, State.SUCCEEDED)
    assert (status.result, status.code, status.attempt) == ({"generation": 2}, None, 2)
    assert [run["generation"] for run in road.runs(failed.request_id)] == [1, 2]
    row = row_of(road, failed.request_id)
    assert (row["generation"], row["attempt"], row["state"]) == (2, 2, "SUCCEEDED")
    assert row["deadline_at"] == failed.deadline_at
    (earlier,) = road.history(failed.request_id)
    assert (earlier["generation"], earlier["outcome"]) == (1, "FAILED")


# As clients and resenders send it by themselves while nothing was heard; and as the client of
# another group does, which reads the topic as well and has failed with it too.
LATE = [("onceward-reopens", b"0")]
THEIRS = [("onceward-reopens", b"1"), ("onceward-group", b"another")]


@pytest.mark.parametrize("meant", [LATE, THEIRS], ids=["late", "another-group"])
def test_a_resend_that_is_not_about_a_failure_that_its_client_was_told_of_reopens_none(
    road: Stage, meant: list[tuple[str, bytes]]
) -> None:
    topic = road.topics["flaky"]
    handle = road.client.send({"amount": 1}, topic=topic, key="k")
    failed = handle.wait(60)
    assert (failed.state, failed.resend, failed.generation) == (State.FAILED, True, 1)
    sent = [*identity(handle.request_id, attempt=2), *meant]
    road.produce(b'{"amount":1}', headers=sent, handler="flaky", key=b"k")
    behind = road.client.send({"amount": 2}, topic=topic, key="k")
    behind.wait(60)
    assert handle.status().state is State.FAILED
    row = row_of(road, handle.request_id)
    assert (row["state"], row["generation"], row["resend"]) == ("FAILED", 1, 1)
    assert len(road.runs(handle.request_id)) == 1
    # Who was told has it sent again.
    road.client.send({"amount": 1}, topic=topic, key="k", request_id=handle.request_id)
    assert road.seen(handle.request_id, State.SUCCEEDED).generation == 2


def test_a_request_past_its_deadline_expires_with_a_row_and_never_runs(road: Stage) -> None:
    request_id = f"late-{time.time_ns()}"
    past = int(time.time() * 1000) - 1000
    sent = road.produce(b"{}", headers=identity(request_id, deadline_at=past))
    assert road.final(request_id).state is State.EXPIRED
    row = row_of(road, request_id)
    assert (row["claimed_at"], row["offset"]) == (None, sent.offset)
    assert road.runs(request_id) == []


def test_a_taken_id_on_another_topic_is_refused_and_touches_nothing(road: Stage) -> None:
    handle = road.client.send({"answer": "seat 12A"}, topic=road.topics["work"])
    first = handle.wait(60)
    before = row_of(road, handle.request_id)
    with pytest.raises(PayloadMismatch):
        road.client.send(
            {"answer": "seat 12A"}, topic=road.topics["marked"], request_id=handle.request_id
        )
    # What another program sends, the journal refuses, also where Redis has forgotten the id.
    wipe(road.client.store, handle.request_id)
    sent = road.produce(
        b'{"answer":"seat 12A"}', headers=identity(handle.request_id, attempt=2), handler="marked"
    )
    refused = road.final(sent.coordinates_id)
    assert (refused.state, refused.code) == (State.FAILED, "PAYLOAD_MISMATCH")
    again = road.final(handle.request_id)
    assert (again.topic, again.offset, again.result) == (first.topic, first.offset, "seat 12A")
    assert row_of(road, handle.request_id)["generation"] == before["generation"]
    assert road.runs(sent.coordinates_id) == []
    assert len(road.runs(handle.request_id)) == 1


def test_another_payload_under_a_taken_id_is_refused_and_touches_nothing(road: Stage) -> None:
    handle = road.client.send({"answer": "first"}, topic=road.topics["work"])
    first = handle.wait(60)
    sent = road.produce(b'{"answer":"second"}', headers=identity(handle.request_id, attempt=2))
    refused = road.final(sent.coordinates_id)
    assert (refused.state, refused.code) == (State.FAILED, "PAYLOAD_MISMATCH")
    assert not refused.resend
    assert row_of(road, sent.coordinates_id)["payload_sha256"] == payload_sha256(
        None, b'{"answer":"second"}'
    )
    seen = handle.status()
    assert (seen.state, seen.result, seen.attempt) == (first.state, first.result, first.attempt)
    assert seen.payload_sha256 == first.payload_sha256
    assert len(road.runs(handle.request_id)) == 1
    assert road.runs(sent.coordinates_id) == []


def test_a_mismatch_puts_right_what_another_payload_wrote_into_an_empty_redis(road: Stage) -> None:
    handle = road.client.send({"answer": "mine"}, topic=road.topics["work"])
    handle.wait(60)
    wipe(road.client.store, handle.request_id)
    sent = road.produce(b'{"answer":"theirs"}', headers=identity(handle.request_id))
    assert road.final(sent.coordinates_id).code == "PAYLOAD_MISMATCH"
    status = road.seen(handle.request_id, State.SUCCEEDED)
    assert status.result == "mine"
    assert status.payload_sha256 == payload_sha256(None, b'{"answer":"mine"}')


def test_a_marked_handler_enters_its_effect_once_the_journal_has_it(road: Stage) -> None:
    handle = road.client.send({"answer": "done"}, topic=road.topics["marked"])
    assert handle.wait(60).result == "done"
    assert len(road.runs(handle.request_id, at="effect")) == 1
    row = row_of(road, handle.request_id)
    assert row["claimed_at"] <= row["effect_at"] <= row["finished_at"]


def test_an_error_before_the_mark_fails_and_one_after_it_leaves_doubt(road: Stage) -> None:
    before = road.client.send({"before": "raise"}, topic=road.topics["marked"])
    after = road.client.send({"do": "raise"}, topic=road.topics["marked"])
    failed, doubted = before.wait(60), after.wait(60)
    assert (failed.state, failed.code) == (State.FAILED, "HANDLER_ERROR")
    assert row_of(road, before.request_id)["effect_at"] is None
    assert (doubted.state, doubted.code) == (State.IN_DOUBT, "HANDLER_ERROR")
    assert row_of(road, after.request_id)["effect_at"] is not None


def test_a_coroutine_handler_runs_and_enters_its_effect(road: Stage) -> None:
    handle = road.client.send({}, topic=road.topics["coroutine"])
    assert handle.wait(60).result == {"id": handle.request_id}
    assert len(road.runs(handle.request_id, at="effect")) == 1


def test_an_unknown_outcome_that_the_handler_tells_is_in_doubt(road: Stage) -> None:
    handle = road.client.send({"do": "doubt"}, topic=road.topics["work"])
    status = handle.wait(60)
    assert (status.state, status.message) == (State.IN_DOUBT, "the bank did not answer")


def test_a_transactional_handlers_write_is_there_exactly_once(road: Stage) -> None:
    handle = road.client.send({"answer": 1}, topic=road.topics["booking"])
    assert (handle.wait(60).state, handle.status().result) == (State.SUCCEEDED, 1)
    road.produce(b'{"answer":1}', handler="booking", headers=identity(handle.request_id, attempt=2))
    eventually(lambda: handle.status().attempt == 2)
    assert bookings(road, handle.request_id) == 1
    row = row_of(road, handle.request_id)
    assert (row["state"], row["effect_at"]) == ("SUCCEEDED", None)


@pytest.mark.parametrize("how", ["raise", "reject"])
def test_a_transactional_handler_that_fails_leaves_nothing(road: Stage, how: str) -> None:
    handle = road.client.send({"do": how}, topic=road.topics["booking"])
    assert handle.wait(60).state is State.FAILED
    assert len(road.runs(handle.request_id)) == 1
    assert bookings(road, handle.request_id) == 0


def bookings(stage: Stage, request_id: str) -> int:
    found = stage.execute(f"SELECT count(*) FROM booking WHERE request_id = '{request_id}'")
    return int(found[0][0])
