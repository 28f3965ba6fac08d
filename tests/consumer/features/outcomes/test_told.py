"""Each request that has ended has one record of it, which says how."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from feedback.clock import epoch_ms
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.writer import KafkaWriter
from feedback.settings.settings import KafkaSection
from feedback.status import State
from tests.consumer.features.outcomes.conftest import MakeOutlet, open_outlet
from tests.consumer.features.outcomes.outlet import Outlet, Told
from tests.consumer.foreign import Headers, identity
from tests.eventually import eventually
from tests.stack import Servers

TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
BAD = ("onceward-deadline", b"no time")


@pytest.fixture(scope="module")
def outlet(
    servers: Servers, module_journal_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outlet]:
    """Yield an outlet whose worker runs, on each kind of journal: tests only send to it."""
    with open_outlet(
        servers,
        tmp_path_factory.mktemp("outlet"),
        *("telling", "booked", "work"),
        journal_url=module_journal_url,
        partitions=3,
        worker={"max_result_bytes": 1_100_000},
    ) as made:
        made.stage.start()
        # Before the first outcome, so that who reads it finds it.
        eventually(lambda: made.described() is not None)
        yield made


def test_each_end_is_told_once_and_nothing_else_is(outlet: Outlet) -> None:
    stage = outlet.stage
    client, topic = stage.client, stage.topics["telling"]
    good = client.send({"answer": {"receipt": 7}}, topic=topic, key="k")
    rejected = client.send({"reject": "CARD_EXPIRED"}, topic=topic)
    doubt = client.send({"doubt": True}, topic=topic)
    may_help = client.send({"reject": "BUSY"}, topic=topic)
    stage.produce(b"{}", headers=identity("late", deadline_at=1), handler="telling")
    malformed = stage.produce(b"{}", headers=[BAD], handler="telling").coordinates_id
    booked = client.send({}, topic=stage.topics["booked"])
    unwanted = client.send({"answer": 1}, topic=stage.topics["work"])
    for handle in (good, rejected, doubt, may_help, unwanted, booked):
        handle.wait(30)
    wanted = {
        good.request_id: ("SUCCEEDED", None, {"receipt": 7}),
        rejected.request_id: ("FAILED", "CARD_EXPIRED", None),
        "late": ("EXPIRED", "DEADLINE_OVER", None),
        malformed: ("FAILED", "INVALID_MESSAGE", None),
    }
    sent = {*wanted, doubt.request_id, may_help.request_id}
    told = _of(sent, outlet.until({(one, 1) for one in wanted}))
    assert {one.value["request_id"]: _ending(one.value) for one in told} == wanted
    assert len(told) == len(wanted)
    for one in told:
        row = stage.row(one.value["request_id"])
        assert row is not None
        assert one.value["finished_at"] == row["finished_at"]
        assert one.value["message"] == row["message"]
        assert (one.value["attempt"], one.value["generation"]) == (1, 1)
        assert one.value["topic"] == topic and one.value["group"] == stage.group
        assert one.headers["onceward-request-id"] == row["request_id"]
        assert one.headers["onceward-status"] == row["state"]
        assert one.headers["onceward-generation"] == "1"
    (from_child,) = outlet.until({(booked.request_id, 1)}, "booked")
    assert from_child.value["result"] == booked.request_id
    assert not outlet.is_written(doubt.request_id)
    assert not outlet.is_written(may_help.request_id)
    row = stage.row(unwanted.request_id)
    assert row is not None and row["outcome_generation"] is None


def _of(request_ids: set[str], told: list[Told]) -> list[Told]:
    return [one for one in told if one.value["request_id"] in request_ids]


def _ending(value: dict[str, object]) -> tuple[object, object, object]:
    return value["status"], value["code"], value["result"]


def test_the_key_is_the_requests_and_the_trace_goes_on(outlet: Outlet) -> None:
    stage = outlet.stage
    sent = [
        stage.produce(b"{}", key=key, headers=[("traceparent", TRACE)], handler="telling")
        for key in (b"\x00\xff", b"", None)
    ]
    told = outlet.until({(one.coordinates_id, 1) for one in sent})
    found = {one.value["request_id"]: one for one in told}
    keys = [found[one.coordinates_id].record.key for one in sent]
    assert keys == [b"\x00\xff", b"", None]
    for one in sent:
        record = found[one.coordinates_id].record
        # By key as producers place it, and without a key where its request was.
        assert record.partition == one.partition
        assert found[one.coordinates_id].headers["traceparent"] == TRACE.decode()
    places = [found[one.coordinates_id].value for one in sent]
    assert [(one["partition"], one["offset"]) for one in places] == [
        (one.partition, one.offset) for one in sent
    ]


def test_a_result_is_passed_on_as_it_was_returned(outlet: Outlet) -> None:
    answers = [10**40, 1.5, 'é\u2028"', [None, {}], False, None]
    sent = [
        outlet.stage.produce(json.dumps({"answer": one}).encode(), handler="telling")
        for one in answers
    ]
    told = outlet.until({(one.coordinates_id, 1) for one in sent})
    results = {one.value["request_id"]: one.value["result"] for one in told}
    assert [results[one.coordinates_id] for one in sent] == answers


def test_every_end_is_told_at_once(make_outlet: MakeOutlet) -> None:
    # By itself the thread looks once a lease.
    outlet = make_outlet("telling", "booked", journal={"lease_s": 120, "wait_s": 240})
    stage = outlet.stage
    worker = stage.start()
    sends: list[tuple[str, bytes, Headers]] = [
        ("telling", b'{"answer": 1}', []),
        ("telling", b'{"reject": "NO"}', []),
        ("telling", b"{}", [BAD]),
        ("telling", b"{}", identity("late", deadline_at=1)),
        ("booked", b"{}", []),
    ]
    for handler, value, headers in sends:
        # One after the other, so that none is found with the news of another.
        sent = stage.produce(value, headers=headers, handler=handler)
        name = "late" if b"late" in dict(headers).values() else sent.coordinates_id
        stage.final(name)
        eventually(partial(outlet.is_written, name), timeout_s=30, what=str(value))
    assert worker.stop() == 0


def test_the_topic_is_made_like_its_source_with_room_for_the_longest_result(
    outlet: Outlet,
) -> None:
    topic = outlet.described()
    assert topic is not None and len(topic["partitions"]) == outlet.stage.partitions == 3
    long = outlet.stage.client.send({"answer": "x" * 100}, topic=outlet.stage.topics["telling"])
    assert long.wait(60).state is State.SUCCEEDED
    text = "y" * 1_000_000
    largest = outlet.stage.produce(json.dumps({"answer": text}).encode(), handler="telling")
    sent = {long.request_id, largest.coordinates_id}
    told = _of(sent, outlet.until({(one, 1) for one in sent}))
    assert {len(one.value["result"]) for one in told} == {100, 1_000_000}


def test_a_failure_that_a_resend_may_help_is_told_at_its_deadline(outlet: Outlet) -> None:
    topic = outlet.stage.topics["telling"]
    # By then the worker reads: the deadline is for the request alone.
    outlet.stage.client.send({"answer": "x"}, topic=topic).wait(60)
    sent = outlet.stage.client.send({"reject": "BUSY"}, topic=topic, deadline_s=6)
    failed = sent.wait(60)
    assert (failed.state, failed.resend) == (State.FAILED, True)
    assert not outlet.is_written(sent.request_id) or epoch_ms() >= (sent.deadline_at or 0)
    run = (sent.request_id, 1)
    (told,) = [one for one in outlet.until({run}) if one.run == run]
    assert _ending(told.value)[:2] == ("FAILED", "BUSY")


def test_a_redriven_request_is_told_again_under_its_next_generation(outlet: Outlet) -> None:
    stage = outlet.stage
    sent = stage.client.send({"reject": "CARD_EXPIRED"}, topic=stage.topics["telling"])
    sent.wait(60)
    outlet.until({(sent.request_id, 1)})
    # As a redrive leaves it.
    stage.execute(f"UPDATE onceward_request SET resend = 1 WHERE request_id = '{sent.request_id}'")
    headers = identity(sent.request_id, 2)
    stage.produce(b'{"reject":"CARD_EXPIRED"}', headers=headers, handler="telling")
    told = _of({sent.request_id}, outlet.until({(sent.request_id, 2)}))
    assert sorted(one.run for one in told) == [(sent.request_id, 1), (sent.request_id, 2)]
    assert len({one.headers["onceward-outcome-id"] for one in told}) == 2


def test_a_worker_of_the_same_group_takes_each_outcome_as_a_request_of_its_own_once(
    make_outlet: MakeOutlet, tmp_path: Path
) -> None:
    outlet = make_outlet()
    stage = outlet.stage
    stage.topics["listening"] = outlet.name()
    outlet.make()
    stage.start()
    sent = [
        stage.client.send({"answer": number}, topic=stage.topics["telling"]) for number in range(3)
    ]
    told = outlet.until({(one.request_id, 1) for one in sent})
    # As a writer leaves it that died before it knew that Kafka has it.
    again = KafkaWriter(KafkaSection(bootstrap_servers=outlet.kafka, group="unused"))
    copies = [
        Outgoing(outlet.name(), one.partition, one.key, one.value, one.headers) for one, *_ in told
    ]
    assert again.write(copies) == [None] * 3
    again.close()
    names = [f"{one.request_id}.outcome.1" for one in sent]
    for name in names:
        assert stage.final(name).state is State.SUCCEEDED
    (heard,) = tmp_path.rglob("*.heard")
    committed = outlet.name()
    eventually(lambda: sum(stage.committed(committed, number) for number in (0, 1)) == 6)
    lines = [json.loads(line) for line in heard.read_text().splitlines()]
    assert Counter(line["id"] for line in lines) == dict.fromkeys(names, 1)
    assert {line["of"] for line in lines} == {one.request_id for one in sent}
