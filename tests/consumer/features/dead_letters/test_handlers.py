"""Handlers of dead letters on the real road: each letter is handled once, and none for ever."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consumer.features.retries.headers import retry_topics
from consumer.features.retries.retries import Retries
from consumer.handlers.dead_letters.declaring import in_group
from consumer.handlers.declaration import Handler, OnError
from consumer.intake.buffer import Buffer
from consumer.loop.scheduler import Scheduler
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.writer import KafkaWriter
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.envelope import Envelope, encode_headers
from feedback.settings.settings import KafkaSection, load
from feedback.status import State
from tests.consumer.cores import core_of
from tests.consumer.features.dead_letters.box import header
from tests.consumer.features.dead_letters.conftest import FAILING, MakeBox, open_box
from tests.consumer.features.dead_letters.ward import LETTERS, Ward
from tests.consumer.foreign import identity
from tests.consumer.stage import HANDLERS
from tests.eventually import eventually
from tests.producer_client.resenders import running
from tests.stack import Servers

MakeWard = Callable[..., Ward]
LIMIT_S = 40.0


WORKER = {"handlers": [HANDLERS, FAILING, LETTERS], "outage_share": 0}


@pytest.fixture
def make_ward(make_box: MakeBox, tmp_path: Path) -> MakeWard:
    """Return a factory of wards: `make_ward("refusing", filing="refusing")`."""

    def make(*handlers: str, **of: str) -> Ward:
        return Ward(make_box(*handlers, worker=WORKER), tmp_path, **of)

    return make


@pytest.fixture(scope="module")
def ward(
    servers: Servers, module_journal_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ward]:
    """Yield a ward whose worker runs: tests only send to it."""
    folder = tmp_path_factory.mktemp("ward")
    topics = ("refusing", "failing", "modelled", "work")
    of = {"filing": "refusing", "marking": "failing", "keeping": "modelled", "insisting": "work"}
    with open_box(servers, folder, *topics, worker=WORKER, journal_url=module_journal_url) as box:
        made = Ward(box, folder, **of)
        made.start()
        # Made beforehand: nothing has failed yet.
        eventually(lambda: box.name("refusing") in made.topics(), timeout_s=LIMIT_S)
        yield made


def written_again(ward: Ward, handler: str, request_ids: set[str]) -> None:
    """Write letters once more, as a worker does that died before it noted it."""
    writer = KafkaWriter(KafkaSection(bootstrap_servers=ward.box.kafka, group="unused"))
    copies = [
        Outgoing(one.topic, one.partition, one.key, one.value, one.headers)
        for one in ward.box.letters(handler)
        if header(one, "onceward-request-id") in request_ids
    ]
    assert len(copies) == len(request_ids)
    assert writer.write(copies) == [None] * len(copies)
    writer.close()


def test_each_letter_is_handled_once_and_the_request_that_failed_keeps_its_row(
    ward: Ward,
) -> None:
    stage = ward.stage
    topic = ward.box.name("refusing")
    assert ward.partitions(topic) == stage.partitions
    sent = [stage.produce(b'{"n": 1}', key=b"card", handler="refusing") for _ in range(3)]
    for one in sent:
        row = ward.row(f"{one.coordinates_id}.dlq.1", State.SUCCEEDED)
        assert (row["topic"], row["attempt"], row["generation"]) == (topic, 1, 1)
        assert json.loads(row["result"]) == {"ticket": one.coordinates_id}
    # A letter may have been handled before its writer has noted that it is written.
    ward.box.closed([one.coordinates_id for one in sent])
    first = sent[0]
    failed = dict(stage.row(first.coordinates_id) or {})
    (seen,) = ward.seen(first.coordinates_id)
    assert (seen["reason"], seen["stage"], seen["attempts"]) == ("CARD_EXPIRED", "run", 1)
    assert seen["exception_class"] == "consumer.handlers.Rejected"
    assert [seen[name] for name in ("topic", "partition", "offset", "timestamp")] == [*first]
    assert (seen["key"], seen["value"], seen["group"]) == ("card", '{"n": 1}', stage.group)
    assert (seen["failed_at"], seen["place"][0]) == (failed["finished_at"], topic)
    # Its own deadline, not that of what failed.
    assert seen["deadline_at"] == seen["timestamp_of_letter"] + 3_600_000
    assert seen["deadline_at"] > failed["deadline_at"]
    written_again(ward, "refusing", {one.coordinates_id for one in sent})
    latest = stage.produce(b"{}", handler="refusing")
    ward.row(f"{latest.coordinates_id}.dlq.1", State.SUCCEEDED)
    eventually(
        lambda: all(stage.committed(topic, at) == stage.end(topic, at) for at in range(2)),
        timeout_s=LIMIT_S,
        what="all letters read",
    )
    other = stage.produce(b'{"answer": 1}', handler="work")
    assert stage.final(other.coordinates_id).state is State.SUCCEEDED
    assert [len(ward.seen(one.coordinates_id)) for one in [*sent, latest]] == [1, 1, 1, 1]
    assert dict(stage.row(first.coordinates_id) or {}) | {"published_at": 0} == failed | {
        "published_at": 0
    }


def test_what_never_ran_is_handled_too(ward: Ward) -> None:
    malformed = ward.stage.produce(b"{}", handler="modelled", headers=[("onceward-attempt", b"x")])
    no_model = ward.stage.produce(b'{"amount": "x"}', handler="modelled", headers=identity("mine"))
    for request_id in (malformed.coordinates_id, "mine"):
        ward.row(f"{request_id}.dlq.0", State.SUCCEEDED)
        (seen,) = ward.seen(request_id)
        assert (seen["reason"], seen["stage"]) == ("INVALID_MESSAGE", "receive")
    assert no_model.topic == ward.stage.topics["modelled"]


def test_a_handler_that_fails_is_counted_and_there_are_no_letters_of_letters(ward: Ward) -> None:
    stage = ward.stage
    (worker,) = stage.workers
    raises = stage.produce(b'{"then": "raise"}', handler="refusing").coordinates_id
    rejects = stage.produce(b'{"then": "reject"}', handler="refusing").coordinates_id
    acted = stage.produce(b'{"then": "raise"}', handler="failing").coordinates_id
    failed = ward.row(f"{raises}.dlq.1", State.FAILED)
    assert (failed["code"], failed["resend"]) == ("HANDLER_ERROR", 0)
    assert ward.row(f"{rejects}.dlq.1", State.FAILED)["code"] == "NO_TICKET"
    assert ward.row(f"{acted}.dlq.1", State.IN_DOUBT)["code"] == "HANDLER_ERROR"
    ward.box.closed([raises, rejects, f"{raises}.dlq.1", f"{rejects}.dlq.1"])
    topic = ward.box.name("refusing")

    def dropped() -> list[tuple[str, int]]:
        closed = worker.events("dead_letters.closed")
        return [(one["what"], one["count"]) for one in closed if one["topic"] == topic]

    # The journal is told first, the log afterwards.
    eventually(lambda: sum(count for _, count in dropped()) == 2)
    assert {what for what, _ in dropped()} == {"dropped"}
    assert dead_letter_topic(topic, stage.group) not in ward.topics()


def test_one_that_insists_runs_again_until_it_works_and_holds_up_nobody(ward: Ward) -> None:
    stage = ward.stage
    fails = b'{"do": "reject", "then": "raise-twice"}'
    stubborn = stage.produce(fails, key=b"k", handler="work")
    ward.row(f"{stubborn.coordinates_id}.dlq.1", State.RETRYING)
    others = [stage.produce(b'{"do": "reject"}', handler="work").coordinates_id for _ in range(3)]
    for one in others:
        ward.row(f"{one}.dlq.1", State.SUCCEEDED)
    row = ward.row(f"{stubborn.coordinates_id}.dlq.1", State.SUCCEEDED)
    assert row["generation"] == 3
    runs = ward.seen(stubborn.coordinates_id)
    assert [run["generation"] for run in runs] == [1, 2, 3]
    # A later run sees what the first one saw.
    own = ("generation", "place")
    facts = [{name: run[name] for name in run if name not in own} for run in runs]
    assert facts[0] == facts[1] == facts[2]
    assert runs[2]["stacktrace"].endswith("the card has expired\n")
    assert row["deadline_at"] - runs[0]["timestamp_of_letter"] == 365 * 86_400_000
    retry = f"{ward.box.name('work')}.{stage.group}.retry.4s"
    assert ward.partitions(retry) == stage.partitions


def test_retry_topics_of_letters_are_made_like_the_source_while_there_is_no_letter_yet(
    make_ward: MakeWard,
) -> None:
    ward = make_ward("refusing")
    stage = ward.stage
    declared = Handler(
        function=print,
        topic="?",
        name="m:f",
        dead_letters_of=stage.topics["refusing"],
        on_error=OnError.RETRY,
    )
    handlers = [in_group(declared, stage.group)]
    buffer = Buffer(1)
    core = core_of(
        load(stage.config()), handlers=handlers, buffer=buffer, scheduler=Scheduler(buffer)
    )
    retries = Retries(core)
    retries._open_source().close()
    names = retry_topics(handlers, stage.group)
    assert len(names) == 6
    assert {ward.partitions(name) for name in names} == {stage.partitions}
    assert not ward.box.exists("refusing")


def test_a_topic_that_nobody_may_make_is_awaited_and_read_when_it_is_there(
    make_ward: MakeWard,
) -> None:
    ward = make_ward("refusing", filing="refusing")
    worker = ward.start(worker={"create_topics": False})
    worker.told("dead_letters.topic_awaited")
    sent = ward.stage.produce(b"{}", handler="refusing").coordinates_id
    assert ward.stage.final(sent).code == "CARD_EXPIRED"
    assert worker.is_alive and not ward.box.exists("refusing")
    ward.box.make("refusing")
    ward.row(f"{sent}.dlq.1", State.SUCCEEDED)


def test_the_check_misses_only_topics_that_somebody_has_to_make(make_ward: MakeWard) -> None:
    ward = make_ward("refusing", filing="refusing")
    assert "1 topics there" in ward.check()
    told = ward.check(worker={"create_topics": False})
    assert told.endswith(f"has no topic {ward.box.name('refusing')}")


def test_the_letters_of_a_topic_that_another_workers_handler_has_are_read_here(
    make_ward: MakeWard,
) -> None:
    ward = make_ward("refusing", "work", filing="refusing")
    stage = ward.stage
    handlers = {"handlers": [LETTERS]}
    ward.start(worker=handlers)
    stage.start(worker={"handlers": [HANDLERS, FAILING], "outage_share": 0})
    sent = stage.produce(b"{}", handler="refusing").coordinates_id
    ward.row(f"{sent}.dlq.1", State.SUCCEEDED)
    assert stage.final(sent).code == "CARD_EXPIRED"


def test_a_letter_that_its_worker_lost_is_sent_again_by_the_resender_and_handled_once(
    make_ward: MakeWard,
) -> None:
    ward = make_ward("refusing", filing="refusing")
    stage = ward.stage
    alone = {"handlers": [LETTERS], "processes": 1}
    doomed = ward.start(worker=alone)
    stage.start(worker={"handlers": [HANDLERS, FAILING]})
    hangs = stage.produce(b'{"then": "hang"}', handler="refusing").coordinates_id
    eventually(lambda: ward.seen(hangs), timeout_s=LIMIT_S, what="a letter that hangs")
    # Committed, and not claimed: there is no other slot.
    lost = stage.produce(b"{}", key=b"k", handler="refusing").coordinates_id
    stage.seen(f"{lost}.dlq.1", State.ACCEPTED)
    topic = ward.box.name("refusing")
    eventually(
        lambda: sum(stage.committed(topic, number) for number in range(2)) == 2,
        timeout_s=LIMIT_S,
        what="a commit",
    )
    doomed.kill()
    ward.start(worker=alone)
    with running(load(stage.config())) as resender:
        row = ward.row(f"{lost}.dlq.1", State.SUCCEEDED)
        assert resender.ids() == [f"{lost}.dlq.1"]
    assert row["attempt"] == 2
    (seen,) = ward.seen(lost)
    assert (seen["reason"], seen["attempt"], seen["key"]) == ("CARD_EXPIRED", 2, "k")
    assert stage.row(f"{lost}.dlq.1.dlq.1") is None
    # The other one may have filed its ticket: a person decides.
    assert ward.row(f"{hangs}.dlq.1", State.IN_DOUBT)["generation"] == 1


def test_a_letter_that_is_there_twice_under_both_ids_is_handled_once(make_ward: MakeWard) -> None:
    ward = make_ward("refusing", filing="refusing")
    stage = ward.stage
    ward.make(ward.box.name("refusing"))
    first = stage.start(worker={"handlers": [HANDLERS, FAILING], "outage_share": 0})
    sent = stage.produce(b"{}", key=b"k", handler="refusing").coordinates_id
    letter = ward.box.letter(sent, "refusing")
    assert first.stop() == 0
    # What the resender writes: the same letter, under the id of the one that handles it.
    envelope = Envelope(f"{sent}.dlq.1", 2, letter.timestamp_ms + 60_000)
    headers = tuple(encode_headers(envelope, letter.headers))
    writer = KafkaWriter(KafkaSection(bootstrap_servers=ward.box.kafka, group="unused"))
    again = Outgoing(letter.topic, None, letter.key, letter.value, headers)
    assert writer.write([again]) == [None]
    writer.close()
    ward.start()
    row = ward.row(f"{sent}.dlq.1", State.SUCCEEDED)
    eventually(
        lambda: stage.committed(letter.topic, 0) == 2, timeout_s=LIMIT_S, what="both were read"
    )
    assert stage.row(f"{sent}.dlq.1.dlq.1") is None
    assert len(ward.seen(sent)) == 1
    assert row["generation"] == 1
