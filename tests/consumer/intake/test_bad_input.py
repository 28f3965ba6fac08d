"""Bad input: each gets a clear end and a line in the log, and the worker goes on."""

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from feedback.errors import InvalidMessage, NotSent
from feedback.records.envelope import payload_sha256
from feedback.status import State
from tests.consumer.foreign import Sent
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.stack import Servers

# Stands in payloads, and may stand nowhere else.
MARKER = "4111-secret-1111"
ID, ATTEMPT, DEADLINE = "onceward-request-id", "onceward-attempt", "onceward-deadline"


@pytest.fixture(scope="module")
def shop(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """Yield a stage with one worker for all tests here."""
    folder = tmp_path_factory.mktemp("shop")
    url = f"sqlite:///{folder}/journal.db"
    with open_stage(
        servers=servers, journal_url=url, folder=folder, handlers=("work", "modelled")
    ) as stage:
        stage.start()
        yield stage


@pytest.fixture
def stage(shop: Stage) -> Iterator[Stage]:
    """Yield the stage; afterwards its worker still works, and has logged no payload."""
    yield shop
    good = shop.client.send({"answer": MARKER}, topic=shop.topics["work"])
    assert good.wait(60).result == MARKER
    assert MARKER not in shop.workers[0].stderr


def marked(**more: object) -> bytes:
    return json.dumps({"marker": MARKER, **more}).encode()


def refused(stage: Stage, sent: Sent, *, code: str = "INVALID_MESSAGE") -> None:
    """Check that a record ended with this code under its coordinates, and was logged."""
    status = stage.final(sent.coordinates_id)
    assert (status.state, status.code, status.resend) == (State.FAILED, code, False)
    assert status.message
    row = stage.row(sent.coordinates_id)
    assert row is not None
    assert (row["state"], row["offset"], row["claimed_at"]) == ("FAILED", sent.offset, None)
    assert stage.runs(sent.coordinates_id) == []
    logged = [one["request_id"] for one in stage.workers[0].events("request.refused")]
    assert sent.coordinates_id in logged


@pytest.mark.parametrize(
    "request_id",
    [b"a" * 129, b"", b"two words", b"bell\x07", b"nul\x00", "naïve".encode(), b"\xff\xfe"],
)
def test_an_id_that_is_none_is_refused(stage: Stage, request_id: bytes) -> None:
    refused(stage, stage.produce(marked(), headers=[(ID, request_id)]))


@pytest.mark.parametrize(
    "attempt", [b"0", b"-1", b"x", b"1" + b"0" * 30, b"", b"1.5", b" 1", "\uff11".encode(), b"\xff"]
)
def test_an_attempt_that_is_no_count_is_refused(stage: Stage, attempt: bytes) -> None:
    sent = stage.produce(marked(), headers=[(ID, b"attempted"), (ATTEMPT, attempt)])
    refused(stage, sent)
    assert stage.row("attempted") is None


@pytest.mark.parametrize("deadline", [b"x", b"-1", b"", b"1" + b"0" * 30, b"2e12", b"\xff"])
def test_a_deadline_that_is_no_time_is_refused(stage: Stage, deadline: bytes) -> None:
    refused(stage, stage.produce(marked(), headers=[(DEADLINE, deadline)]))


def test_a_deadline_in_the_past_expires(stage: Stage) -> None:
    past = str(int(time.time() * 1000) - 1).encode()
    sent = stage.produce(marked(), headers=[(DEADLINE, past)])
    assert stage.final(sent.coordinates_id).state is State.EXPIRED
    assert stage.runs(sent.coordinates_id) == []


@pytest.mark.parametrize("name", [ID, ATTEMPT, DEADLINE])
def test_a_repeated_header_is_refused_even_when_both_say_the_same(stage: Stage, name: str) -> None:
    refused(stage, stage.produce(marked(), headers=[(name, b"5"), (name, b"5")]))


class RawName(str):
    """A header's name that is written as bytes that are no UTF-8."""

    __slots__ = ()

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """Return the bytes for the record."""
        return b"\xff\xfe"


@pytest.mark.parametrize("said", [[b"\xff"], [b"a b"], [b"1", b"2"]])
def test_garbage_in_the_name_of_an_outcome_does_not_keep_a_sent_request_open(
    stage: Stage, said: list[bytes]
) -> None:
    # As a client sent it that took such a header, and as the resender sends it again.
    request_id = f"garbage-{said!r}".replace(" ", "").encode()
    headers = [("onceward-outcome-id", one) for one in said]
    stage.produce(marked(), headers=[*headers, (ID, request_id), (ATTEMPT, b"1")])
    assert stage.final(request_id.decode()).state is State.SUCCEEDED


def test_a_foreign_header_may_have_any_bytes(stage: Stage) -> None:
    sent = stage.produce(b'{"answer":1}', headers=[("x-foreign", b"\xff"), ("x-foreign", b"")])
    assert stage.final(sent.coordinates_id).state is State.SUCCEEDED


def test_a_headers_name_that_is_not_utf_8_stops_nobody(stage: Stage) -> None:
    headers = [("traceparent", b"00-1"), (RawName("x"), b"1"), (ID, b"raw-name")]
    stage.produce(b'{"answer":"read"}', headers=headers)
    assert stage.final("raw-name").result == "read"
    assert stage.runs("raw-name")[0]["traceparent"] == "00-1"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        pytest.param(None, b'{"answer":null}', id="null key"),
        pytest.param(b"", b"{}", id="empty key"),
        pytest.param(b"\xff\x00", b"{}", id="key that is no text"),
        pytest.param(b"k", None, id="tombstone"),
        pytest.param(None, b"", id="empty value"),
        pytest.param(None, b"\xff\x00{", id="value that is no text"),
    ],
)
def test_keys_and_values_may_be_null_empty_or_any_bytes(
    stage: Stage, key: bytes | None, value: bytes | None
) -> None:
    sent = stage.produce(value, key=key)
    assert stage.final(sent.coordinates_id).state is State.SUCCEEDED
    assert len(stage.runs(sent.coordinates_id)) == 1
    row = stage.row(sent.coordinates_id)
    assert row is not None
    assert row["message_key"] == key


def test_the_client_sends_a_value_of_the_largest_size_and_refuses_one_byte_more(
    stage: Stage,
) -> None:
    fits, too_large = 0, stage.client.settings.client.max_request_bytes + 1
    while too_large - fits > 1:
        size = (fits + too_large) // 2 if fits else too_large - 512
        try:
            handle = stage.client.send(b"x" * size, topic=stage.topics["work"])
        except NotSent as error:
            assert "larger than 1000000 bytes" in str(error)
            assert stage.client.status(error.request_id).state is State.UNKNOWN
            too_large = size
        else:
            assert handle.wait(60).state is State.SUCCEEDED
            fits = size
    assert fits > 999_000


def test_a_foreign_record_of_the_brokers_largest_size_is_processed(stage: Stage) -> None:
    # The broker's message.max.bytes is 1,048,588 by default, for a batch with its overhead.
    sent = stage.produce(b"x" * 1_048_000)
    assert stage.final(sent.coordinates_id).state is State.SUCCEEDED


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(None, id="tombstone"),
        pytest.param(b"", id="empty"),
        pytest.param(MARKER.encode(), id="no JSON"),
        pytest.param(b'"\xff"', id="no UTF-8"),
        pytest.param(json.dumps({"amount": MARKER}).encode(), id="wrong type"),
        pytest.param(json.dumps({"amount": 5, "\0": MARKER}).encode(), id="NUL in a name"),
        pytest.param(b'{"amount": 5, "\\ud800": 1}', id="half a surrogate in a name"),
        pytest.param(b"[" * 100_000, id="deep"),
        pytest.param(b'{"amount": ' + b"9" * 5_000 + b"}", id="huge number"),
    ],
)
def test_a_value_that_is_not_what_the_model_says_is_refused(
    stage: Stage, value: bytes | None
) -> None:
    sent = stage.produce(value, key=b"k", handler="modelled")
    refused(stage, sent)
    assert MARKER not in str(stage.final(sent.coordinates_id).message)


def test_the_sender_of_a_value_that_does_not_fit_the_model_is_told_by_its_own_id(
    stage: Stage,
) -> None:
    handle = stage.client.send({"amount": MARKER}, topic=stage.topics["modelled"])
    status = handle.wait(60)
    assert (status.state, status.code) == (State.FAILED, "INVALID_MESSAGE")
    assert status.message == "value is not a Payment: amount: int_parsing"


def test_a_value_that_does_not_fit_the_model_touches_no_request_of_its_id(stage: Stage) -> None:
    handle = stage.client.send({"amount": 5}, topic=stage.topics["modelled"])
    assert handle.wait(60).result == {"amount": 5}
    sent = stage.produce(
        marked(), handler="modelled", headers=[(ID, handle.request_id.encode()), (ATTEMPT, b"2")]
    )
    refused(stage, sent, code="PAYLOAD_MISMATCH")
    assert (handle.status().result, handle.status().attempt) == ({"amount": 5}, 1)


@pytest.mark.parametrize(
    ("do", "state", "code"),
    [
        ("return-set", State.SUCCEEDED, "RESULT_NOT_JSON"),
        ("return-nan", State.SUCCEEDED, "RESULT_NOT_JSON"),
        ("return-large", State.SUCCEEDED, "RESULT_TOO_LARGE"),
        ("raise", State.IN_DOUBT, "HANDLER_ERROR"),
        ("exit", State.IN_DOUBT, "HANDLER_ERROR"),
        ("print", State.SUCCEEDED, None),
    ],
)
def test_whatever_a_handler_does_its_request_ends_once(
    stage: Stage, do: str, state: State, code: str | None
) -> None:
    handle = stage.client.send({"do": do, "marker": MARKER}, topic=stage.topics["work"])
    status = handle.wait(60)
    assert (status.state, status.code, status.result) == (state, code, None)
    assert len(stage.runs(handle.request_id)) == 1


@pytest.mark.parametrize("request_id", ["a" * 129, "", "two words", "bell\x07", "naïve"])
def test_a_client_refuses_such_an_id_before_it_writes_anything(
    stage: Stage, request_id: str
) -> None:
    with pytest.raises(InvalidMessage, match="1 to 128 printable ASCII"):
        stage.client.send({}, topic=stage.topics["work"], request_id=request_id)


@pytest.mark.parametrize(
    "fault",
    [{"attempt": "x"}, {"result": "{"}, {"status": "TELEPORTED"}, {"deadline_at": "9" * 30}],
    ids="-".join,
)
def test_a_status_in_redis_that_is_none_ends_no_worker(stage: Stage, fault: dict[Any, Any]) -> None:
    name = f"foreign-{time.time_ns()}"
    value = json.dumps({"answer": MARKER}).encode()
    store = stage.client.store
    facts = {"status": "SUCCEEDED", "attempt": "1", "generation": "1"}
    told: dict[Any, Any] = {**facts, "payload_sha256": payload_sha256(None, value), **fault}
    store.redis.hset(store.request_key(name), mapping=told)
    stage.produce(value, headers=[(ID, name.encode()), (ATTEMPT, b"2")])
    eventually(lambda: stage.row(name) is not None)
