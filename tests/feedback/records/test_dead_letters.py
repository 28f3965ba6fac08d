"""The id under which a dead letter is handled: one for each letter, however often it is written."""

import pytest

from feedback.errors import InvalidMessage
from feedback.records.dead_letters import envelope_of_letter, letter_id
from feedback.records.envelope import Envelope, Record, decode_headers, encode_headers

DEADLINE = 1_700_000_000_000


def letter(*headers: tuple[str, bytes]) -> Record:
    """Return a record of a dead letter topic."""
    return Record("payments.g.dlq", 1, 7, DEADLINE, b"k", b"v", headers)


def ours(request_id: str, attempts: int, *, attempt: int = 3) -> Record:
    """Return a letter as a worker writes it."""
    return letter(
        ("DLQ_REQUEST_ID", request_id.encode()),
        ("DLQ_ATTEMPTS", b"%d" % attempts),
        *encode_headers(Envelope(request_id, attempt, DEADLINE)),
    )


def again(record: Record, attempt: int = 2, deadline_at: int = 5) -> Record:
    """Return a letter as the resender writes it once more, for the one that handles it."""
    handled = envelope_of_letter(record)
    envelope = Envelope(handled.request_id, attempt, deadline_at)
    return record._replace(offset=99, headers=tuple(encode_headers(envelope, record.headers)))


def test_a_letter_is_a_first_attempt_under_its_own_id_without_the_deadline_of_what_failed() -> None:
    assert envelope_of_letter(ours("a", 2)) == Envelope("a.dlq.2", 1, None)


def test_a_letter_that_was_written_twice_has_one_id_and_that_of_a_later_failure_another() -> None:
    first, twice, later = ours("a", 2), ours("a", 2)._replace(offset=8), ours("a", 4)
    ids = [envelope_of_letter(one).request_id for one in (first, twice, later)]
    assert ids == ["a.dlq.2", "a.dlq.2", "a.dlq.4"]


@pytest.mark.parametrize("request_id", ["a", "a.dlq.1", "x" * 128, "x" * 122])
def test_a_resend_keeps_id_attempt_and_deadline_however_often_it_is_sent(request_id: str) -> None:
    first = ours(request_id, 1)
    resent = again(again(first), attempt=3)
    assert envelope_of_letter(resent) == Envelope(letter_id(request_id, 1), 3, 5)
    assert decode_headers(resent).request_id != request_id


def test_a_request_that_is_named_like_a_letter_has_a_letter_of_its_own() -> None:
    assert envelope_of_letter(ours("a.dlq.1", 1)).request_id == "a.dlq.1.dlq.1"


@pytest.mark.parametrize("length", [121, 122, 123, 128])
def test_a_long_id_makes_one_that_is_allowed_and_shows_its_run(length: int) -> None:
    derived = letter_id("x" * length, 10)
    assert len(derived) <= 128
    assert derived.endswith(".dlq.10")
    assert derived.startswith("x" * length if length == 121 else "sha256-")


@pytest.mark.parametrize(
    ("headers", "request_id"),
    [
        ((), f"payments.g.dlq-1-7-{DEADLINE}.dlq.0"),
        ((("onceward-request-id", b"a"),), "a.dlq.0"),
        ((("onceward-request-id", b"a"), ("DLQ_ATTEMPTS", b"5")), "a.dlq.5"),
        ((("onceward-request-id", b"a"), ("DLQ_ATTEMPTS", b"-5")), "a.dlq.0"),
        ((("onceward-request-id", b"a"), ("DLQ_ATTEMPTS", b"9" * 400)), "a.dlq.0"),
    ],
)
def test_what_others_have_written_there_is_handled_once_as_well(
    headers: tuple[tuple[str, bytes], ...], request_id: str
) -> None:
    foreign = letter(*headers)
    assert envelope_of_letter(foreign) == Envelope(request_id, 1, None)
    assert envelope_of_letter(again(foreign)) == Envelope(request_id, 2, 5)


@pytest.mark.parametrize("failed", [b"", b"a b", b"\xff", b"x" * 129])
def test_a_letter_that_names_no_request_is_malformed(failed: bytes) -> None:
    with pytest.raises(InvalidMessage):
        envelope_of_letter(letter(("DLQ_REQUEST_ID", failed)))
