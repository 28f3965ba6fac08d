"""Each kind of failure leaves exactly one dead letter that says what happened."""

import json
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from feedback.kafka.outgoing import Outgoing
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import Record
from feedback.settings.settings import KafkaSection
from feedback.status import State
from tests.consumer.features.dead_letters.box import Box, header, headers
from tests.consumer.features.dead_letters.conftest import MakeBox, open_box
from tests.consumer.foreign import Sent, identity
from tests.consumer.stage import TWO_CHILDREN
from tests.eventually import eventually
from tests.stack import Servers

KINDS = ("work", "marked", "modelled", "booking", "flaky", "failing")
BAD = ("onceward-deadline", b"no time")


@pytest.fixture(scope="module")
def box(
    servers: Servers, module_journal_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Box]:
    """Yield a box whose worker runs, on each kind of journal: tests only send to it."""
    folder = tmp_path_factory.mktemp("box")
    # A child that is killed takes along what runs beside it.
    facts = {"journal_url": module_journal_url, "worker": TWO_CHILDREN}
    with open_box(servers, folder, *KINDS, **facts) as made:
        made.stage.execute("CREATE TABLE booking (request_id TEXT)")
        made.stage.start()
        yield made


def place(sent: Sent) -> list[str]:
    return [sent.topic, str(sent.partition), str(sent.offset), str(sent.timestamp)]


def origin(found: dict[str, str]) -> list[str]:
    return [found[f"ORIGINAL_{name}"] for name in ("TOPIC", "PARTITION", "OFFSET", "TIMESTAMP")]


def test_each_kind_of_failure_leaves_exactly_one_letter_and_nothing_else_does(box: Box) -> None:
    stage = box.stage
    client, topics = stage.client, stage.topics
    rejected = client.send({"do": "reject"}, topic=topics["work"])
    doubt = client.send({"do": "doubt"}, topic=topics["work"])
    good = client.send({"answer": 1}, topic=topics["work"])
    raised = client.send({"before": "raise"}, topic=topics["marked"])
    crashes = client.send({"dies": 9}, topic=topics["booking"])
    no_model = client.send({"amount": "x"}, topic=topics["modelled"])
    may_help = client.send({}, topic=topics["flaky"])
    malformed = stage.produce(b"{}", headers=[BAD])
    assert good.wait(30).state is State.SUCCEEDED
    taken = stage.produce(b"another", headers=identity(good.request_id, 2))
    wanted = {
        "work": {
            rejected.request_id: ("CARD_EXPIRED", "run", "1"),
            malformed.coordinates_id: ("INVALID_MESSAGE", "receive", "0"),
            taken.coordinates_id: ("PAYLOAD_MISMATCH", "claim", "0"),
        },
        "marked": {raised.request_id: ("HANDLER_ERROR", "run", "1")},
        "booking": {crashes.request_id: ("CRASH_LOOP", "run", "3")},
        "modelled": {no_model.request_id: ("INVALID_MESSAGE", "receive", "0")},
    }
    mine = {one.request_id for one in (doubt, good, may_help)}.union(*wanted.values())
    for one in (doubt, crashes):
        assert one.wait(40).state in (State.FAILED, State.IN_DOUBT)
    failed = may_help.wait(40)
    assert (failed.state, failed.resend) == (State.FAILED, True)  # a resend may reopen it
    for handler, failures in wanted.items():
        box.closed(list(failures))
        letters = [
            one for one in box.letters(handler) if header(one, "onceward-request-id") in mine
        ]
        assert Counter(header(one, "onceward-request-id") for one in letters) == Counter(
            failures.keys()
        )
        for letter in letters:
            found = headers(letter)
            said = (found["DLQ_REASON"], found["DLQ_STAGE"], found["DLQ_ATTEMPTS"])
            assert said == failures[found["onceward-request-id"]]
            row = stage.row(found["onceward-request-id"])
            assert row is not None
            assert origin(found)[:3] == [
                topics[handler],
                str(row["partition"]),
                str(row["offset"]),
            ]
            assert letter.partition == row["partition"]
            assert found["DLQ_CONSUMER_GROUP"] == stage.group
            assert found["DLQ_FAILED_AT"] == str(row["finished_at"])
            assert int(found["DLQ_FIRST_FAILED_AT"]) <= row["finished_at"]
            assert found["onceward-deadline"] == str(row["deadline_at"])
            assert found["DLQ_EXCEPTION_MESSAGE"] == row["message"]
    assert not box.exists("flaky")
    for unwritten in (doubt, good, may_help):
        assert not box.is_closed(unwritten.request_id)
    assert not stage.workers[0].events("dead_letters.hindered")


def test_what_a_handler_raised_is_told_with_class_and_stack_and_its_causes(box: Box) -> None:
    sent = box.stage.produce(b"v", key=b"k", headers=[("traceparent", b"00-1")], handler="failing")
    found = headers(box.letter(sent.coordinates_id, "failing"))
    assert origin(found) == place(sent)
    assert found["DLQ_EXCEPTION_CLASS"] == (
        "tests.consumer.features.dead_letters.failing_handlers.BankDown"
    )
    assert found["DLQ_EXCEPTION_MESSAGE"].startswith("BankDown: ")
    # Its end: the text of this one is longer than all that is kept.
    assert len(found["DLQ_STACKTRACE"].encode()) == 8192
    assert (found["traceparent"], found["ORIGINAL_KEY"]) == ("00-1", "k")
    raised = box.stage.client.send({"before": "raise"}, topic=box.stage.topics["marked"])
    stack = headers(box.letter(raised.request_id, "marked"))["DLQ_STACKTRACE"]
    assert stack.startswith("Traceback (most recent call last):\n")
    assert "in marked" in stack and stack.endswith("OSError: no effect yet\n")


def test_key_value_and_headers_are_those_of_the_record_whatever_they_are(box: Box) -> None:
    payloads: list[tuple[bytes | None, bytes | None]] = [
        (None, b"v"),
        (b"", b""),
        (b"\xff\x00", os.urandom(500)),
        (b"k", None),
        (None, None),
    ]
    own = (("x", b"1"), ("x", b""), ("x", b"1"), ("y", b"\xff\x00"), BAD)
    topic = box.stage.topics["work"]
    producer = KafkaWriter(KafkaSection(bootstrap_servers=box.kafka, group="unused"))
    records = [Outgoing(topic, 0, key, value, own) for key, value in payloads]
    assert producer.write(records) == [None] * len(payloads)
    producer.close()

    def letters() -> list[Record]:
        mine = [one for one in box.letters() if one.headers[:1] == own[:1]]
        return sorted(mine, key=lambda one: int(header(one, "ORIGINAL_OFFSET")))

    eventually(lambda: len(letters()) == len(payloads), timeout_s=30)
    found = letters()
    assert [(one.key, one.value) for one in found] == payloads
    for one in found:
        # The malformed one of ours is kept by another name.
        assert one.headers[:5] == (*own[:4], ("ORIGINAL_DEADLINE", BAD[1]))


def test_the_largest_message_fits_with_its_whole_stack_into_the_topic_that_is_made_for_it(
    box: Box,
) -> None:
    # The broker's limit is 1,048,588 bytes for a record with all that is round it.
    value = os.urandom(1_048_400)
    sent = box.stage.produce(value, handler="failing")
    letter = box.letter(sent.coordinates_id, "failing")
    found = headers(letter)
    assert letter.value == value
    assert len(found["DLQ_STACKTRACE"].encode()) == 8192
    assert "DLQ_CUT" not in found


@pytest.mark.parametrize(
    ("worker", "is_closed"),
    [
        ({"dead_letters": "drop"}, True),
        ({"dead_letters": "none"}, False),
    ],
)
def test_dead_letters_that_nobody_wants_are_counted_or_left_alone(
    make_box: MakeBox, worker: dict[str, object], is_closed: bool
) -> None:
    box = make_box("refusing", worker=worker)
    running = box.stage.start()
    sent = [box.stage.produce(b"{}", handler="refusing").coordinates_id for _ in range(3)]
    for one in sent:
        assert box.stage.final(one).code == "CARD_EXPIRED"
    if is_closed:
        box.closed(sent)
        # The journal is told first, the log afterwards.
        eventually(lambda: sum(one["count"] for one in running.events("dead_letters.closed")) == 3)
        dropped = running.events("dead_letters.closed")
        assert {one["what"] for one in dropped} == {"dropped"}
    else:
        assert running.stop() == 0
        assert not any(box.is_closed(one) for one in sent)
    assert not box.exists("refusing")


def test_a_topic_that_is_excluded_has_no_dead_letters_and_the_others_have(
    make_box: MakeBox,
) -> None:
    box = make_box("refusing", "failing")
    excluded = [box.stage.topics["refusing"]]
    box.stage.start(worker={"dead_letters_excluded": excluded})
    left = box.stage.produce(b"{}", handler="refusing")
    assert box.stage.final(left.coordinates_id).code == "CARD_EXPIRED"
    box.letter(box.stage.produce(b"{}", handler="failing").coordinates_id, "failing")
    assert not box.is_closed(left.coordinates_id)
    assert not box.exists("refusing")


def test_two_groups_on_a_topic_have_their_own_letters(make_box: MakeBox) -> None:
    first, second = make_box("refusing"), make_box("refusing")
    second.stage.topics.update(first.stage.topics)
    for box in (first, second):
        box.stage.start()
    sent = first.stage.produce(json.dumps({}).encode(), handler="refusing")
    for box in (first, second):
        letter = box.letter(sent.coordinates_id, "refusing")
        assert header(letter, "DLQ_CONSUMER_GROUP") == box.stage.group
