"""What is in the way of dead letters: a missing topic, a small one, Kafka itself, a dead worker."""

import os
import signal

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from feedback.status import State
from tests.consumer.features.dead_letters.box import Box, header, headers
from tests.consumer.features.dead_letters.conftest import MakeBox
from tests.eventually import eventually
from tests.left_open import left_open
from tests.stack import Servers
from tests.stack.restartable import Restartable

pytestmark = pytest.mark.waits

EXPECTED = {"create_topics": False}
LIMIT_S = 60.0


def fail(box: Box, count: int = 1, *, handler: str = "refusing") -> list[str]:
    """Let requests fail, and return their ids when the journal says so."""
    sent = [box.stage.produce(b"{}", handler=handler).coordinates_id for _ in range(count)]
    for one in sent:
        assert box.stage.final(one).state is State.FAILED
    return sent


def waiting(box: Box, request_ids: list[str]) -> list[str]:
    return [one for one in request_ids if not box.is_closed(one)]


def test_a_missing_topic_is_told_once_and_nothing_is_lost(make_box: MakeBox) -> None:
    box = make_box("refusing", worker=EXPECTED)
    worker = box.stage.start()
    before = fail(box, 3)
    alarm = worker.told("dead_letters.hindered")
    assert alarm["topic"] == box.stage.topics["refusing"]
    assert f"{box.name('refusing')} does not exist: create it" in alarm["reason"]
    during = fail(box, 3)
    assert waiting(box, [*before, *during]) == [*before, *during]
    box.make("refusing")
    box.closed([*before, *during])
    worker.told("dead_letters.free")
    assert box.counted("refusing") == dict.fromkeys([*before, *during], 1)
    assert len(worker.events("dead_letters.hindered")) == 1
    # What the worker remembered was not forgotten meanwhile.
    assert {"DLQ_STACKTRACE" in headers(one) for one in box.letters("refusing")} == {True}


def test_a_letter_that_its_topic_never_takes_keeps_no_other_waiting(make_box: MakeBox) -> None:
    box = make_box("failing", "refusing", worker=EXPECTED)
    box.make("failing", limit_bytes=2300)
    box.make("refusing")
    worker = box.stage.start()
    large = box.stage.produce(os.urandom(4000), handler="failing").coordinates_id
    alarm = worker.told("dead_letters.hindered")
    assert "raise its max.message.bytes" in alarm["reason"]
    small = [box.stage.produce(b"{}", handler="failing").coordinates_id for _ in range(3)]
    other = fail(box)
    box.closed([*small, *other])
    assert waiting(box, [large]) == [large]
    # Of these the texts had to give way.
    assert {header(one, "DLQ_CUT") for one in box.letters("failing")} == {"DLQ_STACKTRACE"}
    with KafkaAdminClient(bootstrap_servers=box.kafka) as admin:
        raised = {"max.message.bytes": "100000"}
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, box.name("failing"), raised)])
    assert "DLQ_CUT" not in headers(box.letter(large, "failing"))
    assert worker.told("dead_letters.free")["topic"] == box.stage.topics["failing"]


def test_a_topic_that_was_deleted_is_made_again(make_box: MakeBox) -> None:
    box = make_box("refusing")
    box.stage.start()
    box.closed(fail(box))
    with KafkaAdminClient(bootstrap_servers=box.kafka) as admin:
        admin.delete_topics([box.name("refusing")])
    eventually(lambda: not box.exists("refusing"), timeout_s=LIMIT_S)
    (again,) = fail(box)
    box.closed([again])
    assert box.counted("refusing") == {again: 1}


def test_what_a_killed_worker_left_without_a_letter_another_one_writes(
    make_box: MakeBox, journal_url: str
) -> None:
    box = make_box("refusing", worker=EXPECTED, journal_url=journal_url)
    first = box.stage.start()
    left = fail(box, 3)
    first.told("dead_letters.hindered")
    first.send(signal.SIGKILL)
    first.wait()
    assert waiting(box, left) == left
    box.make("refusing")
    box.stage.start()
    box.closed(left)
    assert box.counted("refusing") == dict.fromkeys(left, 1)
    for letter in box.letters("refusing"):
        # Read from the topic again: only what the handler raised went with the worker.
        assert letter.value == b"{}"
        found = headers(letter)
        assert (found["DLQ_REASON"], "DLQ_STACKTRACE" in found) == ("CARD_EXPIRED", False)
        assert found["DLQ_EXCEPTION_MESSAGE"] == "the card has expired"
        assert found["ORIGINAL_TIMESTAMP"] == str(letter_time(found))


def letter_time(found: dict[str, str]) -> int:
    """Return the time in the id of a request that was named by its place."""
    return int(found["onceward-request-id"].rpartition("-")[2])


def test_a_worker_that_ends_waits_for_no_letter(make_box: MakeBox) -> None:
    box = make_box("refusing", worker=EXPECTED)
    worker = box.stage.start()
    left = fail(box)
    worker.told("dead_letters.hindered")
    assert worker.stop() == 0
    assert waiting(box, left) == left


@pytest.mark.long
@pytest.mark.timeout(240)
def test_while_kafka_is_away_letters_wait_and_are_written_when_it_is_back(
    make_box: MakeBox, servers: Servers, mortal_broker: Restartable
) -> None:
    box = make_box("refusing", servers=Servers(kafka=mortal_broker.address, redis=servers.redis))
    worker, gate = box.stage.start(), box.stage.gate()
    box.closed(fail(box))
    held = box.stage.produce(
        b"{}", headers=[("gate", gate.path.encode())], handler="refusing"
    ).coordinates_id
    eventually(
        lambda: (row := box.stage.row(held)) is not None and row["state"] == "CLAIMED",
        timeout_s=LIMIT_S,
    )
    with left_open(), mortal_broker.down():
        gate.open()
        worker.told("dead_letters.hindered")
        assert box.stage.final(held).code == "CARD_EXPIRED"
        assert waiting(box, [held]) == [held]
    eventually(lambda: box.is_closed(held), timeout_s=LIMIT_S)
    assert header(box.letter(held, "refusing"), "DLQ_REASON") == "CARD_EXPIRED"
    assert worker.stop() == 0
