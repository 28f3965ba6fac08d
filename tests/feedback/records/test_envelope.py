"""Headers in both directions, request ids, and the hash that tells payloads apart."""

import hashlib
import uuid
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from feedback.clock import epoch_ms
from feedback.errors import InvalidMessage
from feedback.records.envelope import (
    ATTEMPT,
    DEADLINE,
    FIRST,
    GROUP,
    MAX_ATTEMPT,
    MAX_EPOCH_MS,
    MAX_REQUEST_ID_LENGTH,
    REOPENS,
    REQUEST_ID,
    TRACEPARENT,
    Envelope,
    FirstPlace,
    Headers,
    Record,
    check_request_id,
    decode_headers,
    encode_headers,
    new_request_id,
    payload_sha256,
)

ids = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1, max_size=128)
numbers = st.integers(0, 2**63 - 1)
places = st.builds(
    FirstPlace,
    st.just("payments"),
    st.integers(0, 2**31 - 1),
    numbers,
    st.none() | st.just(-1) | numbers,
)
envelopes = st.builds(
    Envelope,
    ids,
    st.integers(1, MAX_ATTEMPT),
    st.none() | st.integers(0, MAX_EPOCH_MS),
    st.none() | st.integers(0, MAX_ATTEMPT),
    st.none() | places,
)
user_headers = st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20)), max_size=5)
payloads = st.tuples(st.none() | st.binary(max_size=8), st.none() | st.binary(max_size=8))


def record(headers: Headers = (), topic: str = "payments") -> Record:
    return Record(topic, 3, 2**40, 1_700_000_000_000, None, b"value", tuple(headers))


@given(envelopes, user_headers)
def test_what_is_encoded_is_decoded_again(envelope: Envelope, others: Headers) -> None:
    assert decode_headers(record(encode_headers(envelope, others))) == envelope
    sent = record(encode_headers(envelope, others, group="mine"))
    assert decode_headers(sent, group="mine") == envelope


@given(envelopes, user_headers)
def test_a_resend_for_another_group_reopens_nothing(envelope: Envelope, others: Headers) -> None:
    sent = record(encode_headers(envelope, others, group="mine"))
    # The first sending has nothing to reopen, and names no group.
    reopens = envelope.reopens if envelope.attempt == 1 else 0
    assert decode_headers(sent, group="theirs") == envelope._replace(reopens=reopens)


def test_a_resend_that_names_no_group_is_for_each() -> None:
    sent = record(encode_headers(Envelope("r", 2, None, 1)))
    assert decode_headers(sent, group="theirs").reopens == 1


@given(envelopes, user_headers)
def test_the_headers_of_the_user_pass_untouched_and_in_order(
    envelope: Envelope, others: Headers
) -> None:
    ours = {REQUEST_ID, ATTEMPT, DEADLINE, REOPENS, GROUP, FIRST}
    passed = [one for one in encode_headers(envelope, others) if one[0] not in ours]
    assert passed == [one for one in others if one[0] not in ours]


def test_the_headers_are_text_and_decimal() -> None:
    trace = (TRACEPARENT, b"00-1-2-01")
    assert encode_headers(Envelope("r", 12, 1_700_000_000_000), [trace]) == [
        trace,
        ("onceward-request-id", b"r"),
        ("onceward-attempt", b"12"),
        ("onceward-deadline", b"1700000000000"),
    ]


def test_a_resend_names_the_first_place_by_topic_partition_offset_and_time() -> None:
    first = Envelope("r", 2, 5, first=FirstPlace("payments", 3, 17, -1))
    assert encode_headers(first)[-1] == ("onceward-first", b"payments/3/17/-1")
    timed = encode_headers(first._replace(first=FirstPlace("payments", 3, 17, 1_700_000_000_000)))
    assert timed[-1] == ("onceward-first", b"payments/3/17/1700000000000")


NO_PLACES = {
    "a number": [b"17"],
    "without a topic": [b"/3/17"],
    "of another topic": [b"refunds/3/17"],
    "before all others": [b"payments/3/-1"],
    "with a time before the first": [b"payments/3/17/-2"],
    "with a line feed": [b"payments/3/17\n"],
    "in Arabic digits": ["payments/3/\u0661".encode()],
    "not UTF-8": [b"\xff/3/17"],
    "of a million digits": [b"payments/3/" + b"9" * 1_000_000],
    "of a later version": [b"payments/3/17/-1/new"],
    "empty": [b""],
    "null": [None],
    "repeated": [b"payments/3/17", b"payments/3/17"],
}


@pytest.mark.parametrize("values", NO_PLACES.values(), ids=NO_PLACES)
def test_a_first_place_that_cannot_be_read_or_is_of_another_topic_says_nothing(
    values: list[bytes],
) -> None:
    sent = record([(REQUEST_ID, b"r"), (ATTEMPT, b"2"), *((FIRST, one) for one in values)])
    assert decode_headers(sent) == Envelope("r", 2)


def test_our_headers_among_those_of_the_user_are_replaced() -> None:
    theirs = [(REQUEST_ID, b"forged"), (ATTEMPT, b"9"), (DEADLINE, b"1"), ("x", b"1")]
    theirs += [(FIRST, b"0-0")]
    found = encode_headers(Envelope("r"), theirs)
    assert found == [("x", b"1"), (REQUEST_ID, b"r"), (ATTEMPT, b"1")]


def test_a_record_without_headers_is_named_by_its_coordinates() -> None:
    assert decode_headers(record()) == Envelope("payments-3-1099511627776-1700000000000", 1, None)


def test_coordinates_longer_than_an_id_are_hashed() -> None:
    room = MAX_REQUEST_ID_LENGTH - len(record(topic="").coordinates_id)
    longest, longer, another = ("t" * room, "t" * (room + 1), "u" * (room + 1))
    assert len(record(topic=longest).coordinates_id) == MAX_REQUEST_ID_LENGTH
    hashed = record(topic=longer).coordinates_id
    assert hashed.startswith("sha256-")
    assert check_request_id(hashed) == record(topic=longer).coordinates_id
    assert hashed != record(topic=another).coordinates_id


BAD_HEADERS = {
    "an id of 129 characters": [(REQUEST_ID, b"x" * 129)],
    "an empty id": [(REQUEST_ID, b"")],
    "an id with a space": [(REQUEST_ID, b"a b")],
    "an id with a space at its end": [(REQUEST_ID, b"a ")],
    "an id with a line feed at its end": [(REQUEST_ID, b"a\n")],
    "an id with a control character": [(REQUEST_ID, b"a\x1b[2J")],
    "an id with a null character": [(REQUEST_ID, b"a\x00")],
    "an id with a delete character": [(REQUEST_ID, b"a\x7f")],
    "an id that is not ASCII": [(REQUEST_ID, "ä".encode())],
    "an id that is not UTF-8": [(REQUEST_ID, b"\xff\xfe")],
    "a null id": [(REQUEST_ID, None)],
    "a repeated id": [(REQUEST_ID, b"a"), (REQUEST_ID, b"a")],
    "attempt 0": [(ATTEMPT, b"0")],
    "attempt -1": [(ATTEMPT, b"-1")],
    "attempt +1": [(ATTEMPT, b"+1")],
    "attempt x": [(ATTEMPT, b"x")],
    "an empty attempt": [(ATTEMPT, b"")],
    "attempt 1.0": [(ATTEMPT, b"1.0")],
    "attempt 1_0": [(ATTEMPT, b"1_0")],
    "attempt with a space": [(ATTEMPT, b" 1")],
    "attempt with a line feed": [(ATTEMPT, b"1\n")],
    "attempt in Arabic digits": [(ATTEMPT, "\u0661".encode())],
    "attempt 10^30": [(ATTEMPT, b"1" + b"0" * 30)],
    "an attempt of a million digits": [(ATTEMPT, b"9" * 1_000_000)],
    "an attempt beyond 32 bits": [(ATTEMPT, b"%d" % (MAX_ATTEMPT + 1))],
    "an attempt that is not UTF-8": [(ATTEMPT, b"\xb1")],
    "a big-endian attempt": [(ATTEMPT, b"\x00\x00\x00\x01")],
    "a repeated attempt": [(ATTEMPT, b"1"), (ATTEMPT, b"2")],
    "a generation to reopen that is no number": [(REOPENS, b"all")],
    "a deadline that is no number": [(DEADLINE, b"tomorrow")],
    "a negative deadline": [(DEADLINE, b"-1")],
    "an empty deadline": [(DEADLINE, b"")],
    "a deadline beyond the year 9999": [(DEADLINE, b"%d" % (MAX_EPOCH_MS + 1))],
    "a deadline of 10^30": [(DEADLINE, b"1" + b"0" * 30)],
    "a deadline that is not UTF-8": [(DEADLINE, b"\xff")],
    "a repeated deadline": [(DEADLINE, b"1"), (DEADLINE, b"1")],
}


@pytest.mark.parametrize("headers", BAD_HEADERS.values(), ids=BAD_HEADERS)
def test_a_malformed_header_is_an_invalid_message(headers: Headers) -> None:
    with pytest.raises(InvalidMessage) as caught:
        decode_headers(record(headers))
    assert caught.value.reason.isprintable()
    assert len(caught.value.reason) < 200


@given(st.lists(st.tuples(st.sampled_from([REQUEST_ID, ATTEMPT, DEADLINE, FIRST]), st.binary())))
def test_any_bytes_in_our_headers_are_decoded_or_refused(headers: Headers) -> None:
    try:
        envelope = decode_headers(record(headers))
    except InvalidMessage:
        return
    assert check_request_id(envelope.request_id)
    assert 1 <= envelope.attempt <= MAX_ATTEMPT
    assert envelope.deadline_at is None or 0 <= envelope.deadline_at <= MAX_EPOCH_MS


def test_repeated_headers_of_others_are_none_of_our_business() -> None:
    assert decode_headers(record([("x", b"\xff"), ("x", b"\xff"), (REQUEST_ID, b"r")])) == Envelope(
        "r"
    )


def test_the_name_of_a_header_is_read_exactly() -> None:
    assert decode_headers(record([("Onceward-Request-Id", b"a b")])).request_id.startswith("pay")


def test_a_new_id_is_a_uuid_of_version_7_and_tells_its_time() -> None:
    before = epoch_ms()
    text = new_request_id()
    found = uuid.UUID(text)
    assert str(found) == text == check_request_id(text)
    assert (found.version, found.variant) == (7, uuid.RFC_4122)
    assert before <= found.int >> 80 <= epoch_ms()


def test_new_ids_differ_and_sort_by_their_time() -> None:
    made = [new_request_id() for _ in range(10_000)]
    assert len(set(made)) == len(made)
    times = [one[:13] for one in made]
    assert all(earlier <= later for earlier, later in pairwise(times))


def test_null_is_not_empty_and_key_is_not_value() -> None:
    parts = (None, b"", b"a")
    hashes = {payload_sha256(key, value) for key in parts for value in parts}
    assert len(hashes) == len(parts) ** 2


@given(payloads, payloads)
def test_only_equal_payloads_have_equal_hashes(
    one: tuple[bytes | None, bytes | None], other: tuple[bytes | None, bytes | None]
) -> None:
    assert (payload_sha256(*one) == payload_sha256(*other)) == (one == other)


@given(st.binary(min_size=1, max_size=16), st.integers(0, 16))
def test_bytes_cannot_move_between_key_and_value(whole: bytes, cut: int) -> None:
    moved = payload_sha256(whole[:cut], whole[cut:])
    assert (moved == payload_sha256(b"", whole)) == (cut == 0)


def test_the_hash_is_the_one_other_languages_compute() -> None:
    null, one = b"\xff" * 8, b"\x00" * 7 + b"\x01"
    assert payload_sha256(None, b"v") == hashlib.sha256(null + one + b"v").hexdigest()
    assert payload_sha256(None, b"v").startswith("f5446363def4d6e4097ef7f3a106013a")
