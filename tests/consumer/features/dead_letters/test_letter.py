"""What a dead letter says: nothing of the record is changed, and hostile texts do no harm."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumer.features.dead_letters.letter import ROOM_BYTES, TRIMS, letter_headers
from consumer.pool.outcome import STACK_LIMIT_BYTES, RaisedError
from feedback.records.envelope import Headers, Record, decode_headers
from feedback.records.failure_headers import OF_A_FAILURE, utf8
from tests.consumer.features.dead_letters.samples import FAILED_AT, dead, texts
from tests.consumer.samples import TIMESTAMP_MS, named, record

RAISED = RaisedError(
    "payments.BankDown", "Traceback (most recent call last):\n  ...\nBankDown: no\n"
)
OURS = ["onceward-request-id", "onceward-attempt", "onceward-deadline"]


def letter(sent: Record, **facts: object) -> dict[str, str]:
    return texts(letter_headers(dead(**facts), sent, group="shop", raised=RAISED))  # type: ignore[arg-type]


def test_a_letter_says_which_request_it_was_where_it_came_from_and_why_it_failed() -> None:
    assert letter(named("a", 2), attempt=2, generation=3) == {
        "ORIGINAL_TOPIC": "payments",
        "ORIGINAL_PARTITION": "3",
        "ORIGINAL_OFFSET": "17",
        "ORIGINAL_TIMESTAMP": str(TIMESTAMP_MS),
        "ORIGINAL_KEY": "card-1",
        "DLQ_REQUEST_ID": "a",
        "DLQ_REASON": "HANDLER_ERROR",
        "DLQ_STAGE": "run",
        "DLQ_EXCEPTION_CLASS": "payments.BankDown",
        "DLQ_EXCEPTION_MESSAGE": "OSError: the bank is on fire",
        "DLQ_STACKTRACE": RAISED.stack,
        "DLQ_CONSUMER_GROUP": "shop",
        "DLQ_ATTEMPTS": "3",
        "DLQ_FIRST_FAILED_AT": str(FAILED_AT),
        "DLQ_FAILED_AT": str(FAILED_AT),
        "onceward-request-id": "a",
        "onceward-attempt": "2",
        "onceward-deadline": str(TIMESTAMP_MS + 60_000),
    }


def test_the_headers_of_the_record_stay_in_their_order_repeated_ones_too() -> None:
    own = (("trace", b"\xff"), ("x", b"1"), ("x", b""), ("traceparent", b"00-1"), ("", b"no name"))
    written = letter_headers(dead(), record(headers=own), group="shop", raised=None)
    assert tuple(written[: len(own)]) == own


def test_the_first_origin_and_the_first_failure_stay_and_the_last_failure_is_told() -> None:
    earlier = (
        ("ORIGINAL_TOPIC", b"first"),
        ("ORIGINAL_PARTITION", b"0"),
        ("ORIGINAL_OFFSET", b"4294967296"),
        ("ORIGINAL_TIMESTAMP", b"5"),
        ("ORIGINAL_KEY", b"k"),
        ("DLQ_REASON", b"TIMEOUT"),
        ("DLQ_STACKTRACE", b"old"),
        ("DLQ_EXCEPTION_MESSAGE", b"old"),
        ("DLQ_FIRST_FAILED_AT", b"77"),
        ("DLQ_FAILED_AT", b"88"),
        ("DLQ_REDRIVE_COUNT", b"2"),
    )
    found = letter(record(headers=earlier))
    assert [found[name] for name, _ in earlier] == [
        *("first", "0", "4294967296", "5", "k", "HANDLER_ERROR", RAISED.stack),
        *("OSError: the bank is on fire", "77", str(FAILED_AT), "2"),
    ]


def test_what_an_earlier_failure_said_and_this_one_does_not_know_is_not_repeated() -> None:
    earlier = (("DLQ_STACKTRACE", b"old"), ("DLQ_EXCEPTION_CLASS", b"old"))
    found = texts(letter_headers(dead(), record(headers=earlier), group="shop", raised=None))
    assert not found.keys() & {"DLQ_STACKTRACE", "DLQ_EXCEPTION_CLASS"}


def test_the_first_failure_is_that_of_the_first_run() -> None:
    found = texts(letter_headers(dead(first_failed_at=123), record(), group="shop", raised=None))
    assert found["DLQ_FIRST_FAILED_AT"] == "123"


@pytest.mark.parametrize("raw", [b"", b"-1", b"x", b"\xff", b"9" * 16, "\u0661".encode()])
def test_a_time_that_is_none_is_not_carried_on(raw: bytes) -> None:
    found = letter(record(headers=(("DLQ_FIRST_FAILED_AT", raw),)))
    assert found["DLQ_FIRST_FAILED_AT"] == str(FAILED_AT)


@pytest.mark.parametrize(
    ("code", "claimed_at", "stage"),
    [
        ("INVALID_MESSAGE", None, "receive"),
        ("PAYLOAD_MISMATCH", None, "claim"),
        ("INVALID_MESSAGE", 1, "run"),
        ("CRASH_LOOP", 1, "run"),
    ],
)
def test_the_stage_says_how_far_it_came(code: str, claimed_at: int | None, stage: str) -> None:
    found = letter(record(), code=code, claimed_at=claimed_at)
    assert (found["DLQ_STAGE"], found["DLQ_REASON"]) == (stage, code)
    assert (found["DLQ_ATTEMPTS"] == "0") is (claimed_at is None)


def test_a_refused_record_has_the_id_of_its_place_and_keeps_what_it_called_itself() -> None:
    bad = (("onceward-request-id", b"taken"), ("onceward-attempt", b"x"), ("a", b"1"))
    sent = record(headers=bad)
    written = letter_headers(dead(sent.coordinates_id), sent, group="shop", raised=None)
    assert written[:3] == [("ORIGINAL_REQUEST_ID", b"taken"), ("ORIGINAL_ATTEMPT", b"x"), bad[2]]
    assert decode_headers(sent._replace(headers=tuple(written))).request_id == sent.coordinates_id


def test_a_repeated_header_of_ours_is_kept_twice_by_another_name() -> None:
    sent = record(headers=(("onceward-request-id", b"a"), ("onceward-request-id", b"a")))
    written = letter_headers(dead("a"), sent, group="shop", raised=None)
    assert written[:2] == [("ORIGINAL_REQUEST_ID", b"a")] * 2
    assert [name for name, _ in written][-3:] == OURS


def test_a_letter_repeats_no_record_of_the_topic_of_its_request() -> None:
    sent = record(headers=(("onceward-first", b"payments/3/5/-1"), ("a", b"1")))
    written = letter_headers(dead("a"), sent, group="shop", raised=None)
    assert written[0] == ("a", b"1") and "onceward-first" not in dict(written)


def test_a_null_key_has_no_text_and_an_empty_one_has() -> None:
    assert "ORIGINAL_KEY" not in letter(record(key=None))
    assert letter(record(key=b""))["ORIGINAL_KEY"] == ""


def test_a_record_without_a_time_gets_none() -> None:
    assert "ORIGINAL_TIMESTAMP" not in letter(record(timestamp_ms=-1))


def test_texts_are_cut_step_by_step_and_the_letter_says_which() -> None:
    stack, message, key = "s" * 9000, "m" * 3000, b"k" * 2000
    sent, failure = record(key=key), dead(message=message)
    steps = []
    for trim in TRIMS:
        raised = RaisedError("E", stack)
        found = texts(letter_headers(failure, sent, group="g", raised=raised, trim=trim))
        names = ("DLQ_STACKTRACE", "DLQ_EXCEPTION_MESSAGE", "ORIGINAL_KEY")
        sizes = [len(found[name].encode()) if name in found else 0 for name in names]
        steps.append((sizes, found.get("DLQ_CUT")))
    cut = "ORIGINAL_KEY,DLQ_EXCEPTION_MESSAGE,DLQ_STACKTRACE"
    assert steps == [
        ([8192, 2048, 1024], None),
        ([1024, 512, 128], cut),
        ([0, 128, 0], cut),
        ([0, 0, 0], cut),
    ]


def test_of_a_stack_the_end_stays_and_of_a_message_the_beginning() -> None:
    raised = RaisedError("E", "first\n" + "x" * 9000 + "last")
    found = texts(
        letter_headers(
            dead(message="first" + "x" * 900 + "last"),
            record(),
            group="g",
            raised=raised,
            trim=TRIMS[1],
        )
    )
    assert found["DLQ_STACKTRACE"].startswith("…") and found["DLQ_STACKTRACE"].endswith("last")
    message = found["DLQ_EXCEPTION_MESSAGE"]
    assert message.startswith("first") and message.endswith("…")


def test_short_texts_are_told_as_cut_only_where_they_are() -> None:
    found = texts(letter_headers(dead(), record(), group="g", raised=RAISED, trim=TRIMS[1]))
    assert "DLQ_CUT" not in found


_NAMES = st.one_of(st.sampled_from([*OURS, *sorted(OF_A_FAILURE), "ORIGINAL_KEY"]), st.text())
_HEADERS = st.lists(st.tuples(_NAMES, st.binary(max_size=50)), max_size=8)
_HOSTILE = st.builds(
    lambda text, times: text * times, st.text(st.characters(), max_size=40), st.integers(0, 400)
)


@given(
    headers=_HEADERS,
    key=st.none() | st.binary(max_size=3000),
    code=_HOSTILE,
    message=st.none() | _HOSTILE,
    stack=_HOSTILE,
    trim=st.sampled_from(TRIMS),
)
def test_whatever_is_in_it_a_letter_is_valid_text_bounded_and_names_its_request(
    headers: Headers, key: bytes | None, code: str, message: str | None, stack: str, trim: object
) -> None:
    sent = record(headers=tuple(headers), key=key)
    failure = dead("the-id", code=code, message=message)
    raised = RaisedError(stack, stack)
    written = letter_headers(failure, sent, group="g" * 200, raised=raised, trim=trim)  # type: ignore[arg-type]
    foreign = [one for one in headers if one[0] not in {*OURS, *OF_A_FAILURE}]
    assert [one for one in written if one in foreign][: len(foreign)] == foreign
    ours = [one for one in written if one[0].startswith("DLQ_") and one not in foreign]
    for _, value in ours:
        value.decode("utf-8")
    assert len({name for name, _ in ours}) == len(ours)
    before = sum(len(name.encode("utf-8", "replace")) + len(value) for name, value in headers)
    after = sum(len(name.encode("utf-8", "replace")) + len(value) for name, value in written)
    assert after - before < ROOM_BYTES
    envelope = decode_headers(sent._replace(headers=tuple(written)))
    assert (envelope.request_id, envelope.attempt) == ("the-id", 1)


@given(text=st.text(st.characters(), max_size=200), limit=st.integers(3, 300), end=st.booleans())
def test_cut_text_is_valid_within_its_limit_and_a_part_of_it(
    text: str, limit: int, end: bool
) -> None:
    cut = utf8(text, limit, keep_end=end)
    whole = text.encode("utf-8", "replace").decode()
    assert len(cut) <= limit
    kept = cut.decode("utf-8")
    if len(whole.encode()) <= limit:
        assert kept == whole
    elif end:
        assert kept[0] == "…" and whole.endswith(kept[1:])
    else:
        assert kept[-1] == "…" and whole.startswith(kept[:-1])


def test_the_budget_holds_a_whole_stack() -> None:
    assert TRIMS[0].stack_bytes == STACK_LIMIT_BYTES == 8192
    assert 2 * sum(TRIMS[0]) < ROOM_BYTES
