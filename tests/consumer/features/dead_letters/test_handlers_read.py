"""What a handler of dead letters gets to see, whoever has written the letter."""

import pytest

from consumer.features.dead_letter_handlers.letter_topics import expected, prepare_letter_topics
from consumer.features.dead_letters.letter import ROOM_BYTES, letter_headers
from consumer.features.dead_letters.strategies import strategies
from consumer.handlers.dead_letters.dead_letter import DeadLetter, read_dead_letter
from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery, receive
from consumer.pool.job import Job, request_of_job
from consumer.pool.outcome import RaisedError
from feedback.errors import KafkaUnavailable
from feedback.logs import event_of
from feedback.settings.settings import load
from tests.consumer.features.dead_letters.samples import FAILED_AT, dead
from tests.consumer.samples import KEY, TIMESTAMP_MS, payments, record


def test_a_letter_of_ours_is_read_whole() -> None:
    redriven = (
        ("DLQ_REDRIVE_COUNT", b"2"),
        ("DLQ_REDRIVE_ID", b"r-2"),
        ("DLQ_REDRIVE_BY", b"ann@desk"),
    )
    failed = dead("a", generation=3, first_failed_at=FAILED_AT - 9)
    headers = letter_headers(
        failed,
        record(headers=redriven),
        group="g",
        raised=RaisedError("bank.Down", "Traceback: …"),
    )
    assert read_dead_letter("a.dlq.3", KEY, headers) == DeadLetter(
        request_id="a",
        reason="HANDLER_ERROR",
        stage="run",
        exception_class="bank.Down",
        exception_message="OSError: the bank is on fire",
        stacktrace="Traceback: …",
        attempts=3,
        first_failed_at=FAILED_AT - 9,
        failed_at=FAILED_AT,
        topic="payments",
        partition=3,
        offset=17,
        timestamp=TIMESTAMP_MS,
        key=KEY,
        group="g",
        redrive_count=2,
        redrive_id="r-2",
        redrive_by="ann@desk",
    )


def test_the_first_origin_and_the_last_failure_count() -> None:
    found = read_dead_letter(
        "a.dlq.0",
        None,
        [
            ("ORIGINAL_TOPIC", b"first"),
            ("DLQ_REASON", b"FIRST"),
            ("ORIGINAL_TOPIC", b"second"),
            ("DLQ_REASON", b"SECOND"),
        ],
    )
    assert (found.topic, found.reason) == ("first", "SECOND")


@pytest.mark.parametrize(
    "headers",
    [
        [],
        [("ORIGINAL_OFFSET", None), ("DLQ_FAILED_AT", b"soon"), ("DLQ_ATTEMPTS", b"\xff")],
        [("ORIGINAL_PARTITION", "²".encode()), ("ORIGINAL_OFFSET", b"9" * 5000)],
        [("DLQ_REQUEST_ID", b"not an id")],
    ],
)
def test_what_anybody_may_have_written_is_read_as_far_as_it_goes(
    headers: list[tuple[str, bytes | None]],
) -> None:
    found = read_dead_letter("a.dlq.0", None, headers)
    assert (found.request_id, found.offset, found.partition, found.failed_at) == (
        "a",
        None,
        None,
        None,
    )


def test_its_text_shows_neither_key_nor_messages() -> None:
    found = DeadLetter("a", exception_message="card 4111", stacktrace="4111", key=b"4111")
    assert "4111" not in repr(found)


def job(*headers: tuple[str, bytes]) -> Job:
    return Job("a.dlq.1", 1, "payments.g.dlq", 0, 0, 0, b"k", b"v", headers, 1, 0)


def test_only_a_handler_of_letters_gets_one() -> None:
    of_letters = payments(dead_letters_of="payments")
    assert request_of_job(job(), payments(), group="g").dead_letter is None
    found = request_of_job(job(("DLQ_REASON", b"BUSY")), of_letters, group="g").dead_letter
    assert found is not None
    assert (found.request_id, found.reason) == ("a.dlq.1", "BUSY")


def test_a_letter_is_received_under_its_own_id_with_a_deadline_of_its_own() -> None:
    headers = (("onceward-request-id", b"a"), ("onceward-deadline", b"5"), ("DLQ_ATTEMPTS", b"2"))
    found = receive(
        record(headers=headers),
        payments(dead_letters_of="payments"),
        group="test",
        default_deadline_s=60.0,
        now_s=5.0,
        now_ms=0,
    )
    assert isinstance(found, Delivery)
    assert (found.request_id, found.envelope.attempt) == ("a.dlq.2", 1)
    assert found.deadline_at == TIMESTAMP_MS + 60_000


def test_there_are_no_letters_of_letters_whatever_the_settings_say() -> None:
    topics = ["payments", "payments.g.dlq", "payments.other.dlq"]
    for strategy in ("keep", "none"):
        settings = load(kafka={"group": "g"}, worker={"dead_letters": strategy})
        chosen = strategies(settings, topics)
        kept = {} if strategy == "none" else {"payments": "keep", "payments.other.dlq": "keep"}
        assert chosen == {**kept, "payments.g.dlq": "drop"}


def letters_of(source: str) -> Handler:
    return Handler(
        function=print, topic=f"{source}.g.dlq", name=f"m:{source}", dead_letters_of=source
    )


class Kafka:
    """Has every source but `absent`."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str, int]] = []

    def ensure(self, name: str, *, like: str, room_bytes: int = 0) -> None:
        """Note what was asked for."""
        self.made.append((name, like, room_bytes))

    def missing(self, names: list[str]) -> list[str]:
        return [name for name in names if name == "absent"]


def test_the_topics_of_letters_are_made_like_their_sources_with_room_and_not_demanded() -> None:
    handlers = [payments(), letters_of("payments"), letters_of("absent")]
    kafka = Kafka()
    prepare_letter_topics(handlers, kafka)
    assert kafka.made == [("payments.g.dlq", "payments", ROOM_BYTES)]
    assert expected(handlers) == ["payments"]


class Away(Kafka):
    """May make nothing."""

    def ensure(self, name: str, *, like: str, room_bytes: int = 0) -> None:
        raise KafkaUnavailable("it does not exist: create it")


def test_a_topic_that_cannot_be_made_is_awaited(caplog: pytest.LogCaptureFixture) -> None:
    prepare_letter_topics([letters_of("payments"), letters_of("absent")], Away())
    told = [(event_of(one), one.__dict__["onceward_fields"]["topic"]) for one in caplog.records]
    assert told == [
        ("dead_letters.topic_awaited", "payments.g.dlq"),
        ("dead_letters.topic_awaited", "absent.g.dlq"),
    ]
