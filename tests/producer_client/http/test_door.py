"""The rules of the front door: the drafts' and ours, as tables of requests and answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel

from feedback.errors import (
    InvalidMessage,
    NotSent,
    PayloadMismatch,
    RedisUnavailable,
    SendUnknown,
    SettingsError,
)
from feedback.settings.settings import load
from feedback.status import State
from feedback.statuses import Status
from producer_client.http import idempotency_key
from producer_client.http.callers import ANONYMOUS, Caller
from producer_client.http.door import (
    HttpOrder,
    TopicOffer,
    accepted_answer,
    document_of,
    etag_of,
    may_see,
    not_sent,
    resendable,
    retry_after_s,
    status_answer,
)
from producer_client.http.ids import is_of, request_id_of
from producer_client.http.problems import KINDS, Problem
from producer_client.http.rates import RateLimit

JSON = {"content-type": "application/json"}
KEYED = {**JSON, "idempotency-key": '"order-7"'}
SHOP = Caller("shop", may_submit=frozenset({"payments"}), may_read=frozenset({"payments"}))
NO_JSON = [
    b"[NaN]", b'{"a":Infinity}', b"-Infinity", '{"a":1}'.encode("utf-16"), b"1\x000\x00",
    b"\xef\xbb\xbf1", b'"\xff"',
]  # fmt: skip
NOW_MS = 1_700_000_000_000


def _offer(**section: Any) -> TopicOffer:
    topics = {"payments": {}, "seats": {"key": "optional", "content_types": ["text/plain"]}}
    settings = load(None, http={"topics": topics, "max_body_bytes": 100, **section})
    return TopicOffer(settings.http, max_request_bytes=1_000_000)


def _status(state: State = State.RUNNING, **facts: Any) -> Status:
    request_id = request_id_of("shop", "order-7")
    facts = {"attempt": 1, "updated_at": NOW_MS, "topic": "payments", **facts}
    return Status(request_id, state, **facts)


@pytest.mark.parametrize(
    ("header", "key"),
    [
        # The draft's own: a string of RFC 9651.
        ('"8e03978e-40d5-43e8-bc93-6894a57f9324"', "8e03978e-40d5-43e8-bc93-6894a57f9324"),
        ('"a b"', "a b"),
        (r'"a\"b\\c"', 'a"b\\c'),
        ('  "a"  ', "a"),
        ('"a";version=1;x="y"', "a"),
        ('"' + "x" * 255 + '"', "x" * 255),
        # Bare: most clients send it so.
        ("order-7", "order-7"),
        ("a/b=c", "a/b=c"),
        # Refused.
        ('""', None),
        ("", None),
        ('"a', None),
        ('a"', None),
        (r'"a\n"', None),
        ('"a", "b"', None),
        ('"a"\n"b"', None),
        ("a, b", None),
        ("a b", None),
        ('"a" b', None),
        ('"' + "x" * 256 + '"', None),
        ("x" * 256, None),
        ('"\x00"', None),
        ('"\x7f"', None),
        ('"é"', None),
        ("é", None),
    ],
)
def test_a_key_is_a_string_of_rfc_9651_or_bare(header: str, key: str | None) -> None:
    found = idempotency_key.read_idempotency_key(header)
    assert (found and found.key) == key
    assert found is None or bool(found.warning) == ('"' not in header)


def test_every_byte_in_a_key_is_taken_or_refused() -> None:
    taken = [
        one for one in map(chr, range(256)) if idempotency_key.read_idempotency_key(f'"a{one}"')
    ]
    assert taken == [chr(one) for one in range(0x20, 0x7F) if chr(one) not in '"\\']


def test_two_callers_with_one_key_have_two_requests_and_neither_sees_the_others() -> None:
    mine, other = request_id_of("shop", "order-7"), request_id_of("bank", "order-7")
    assert mine == request_id_of("shop", "order-7")
    assert mine.partition("-")[2] != other.partition("-")[2]
    assert is_of("shop", mine)
    assert not is_of("bank", mine)
    assert not is_of("shop", mine[:-1])
    # Their texts are the same one after the other.
    assert request_id_of("shop1", "1") != request_id_of("shop", "11")
    assert may_see(SHOP, mine, "payments")
    assert not may_see(SHOP, mine, "seats")
    assert not may_see(ANONYMOUS, mine)


@pytest.mark.parametrize(
    ("topic", "headers", "body", "problem"),
    [
        ("payments", KEYED, b'{"amount": 5}', None),
        ("payments", {**KEYED, "content-type": "Application/JSON; charset=utf-8"}, b"1", None),
        ("payments", {**KEYED, "idempotency-key": "order-7"}, b"1", None),
        ("seats", {"content-type": "text/plain"}, b"\xff", None),
        ("payments", JSON, b"1", (400, "key-missing")),
        ("payments", {**KEYED, "idempotency-key": '"a", "b"'}, b"1", (400, "malformed")),
        ("payments", KEYED, b'{"amount": 5', (400, "malformed")),
        ("payments", KEYED, b"", (400, "malformed")),
        ("payments", KEYED, b"[" * 90, (400, "malformed")),
        # Python reads these, and JSON has them not.
        *[("payments", KEYED, one, (400, "malformed")) for one in NO_JSON],
        ("others", KEYED, b"1", (404, "no-such-topic")),
        ("payments", KEYED, b"1" * 101, (413, "too-large")),
        ("payments", {**KEYED, "content-length": "101"}, b"", (413, "too-large")),
        ("payments", {"idempotency-key": '"a"'}, b"1", (415, "content-type")),
        ("payments", {**KEYED, "content-type": "text/plain"}, b"1", (415, "content-type")),
    ],
)
def test_a_submission_is_an_order_or_a_problem(
    topic: str, headers: dict[str, str], body: bytes, problem: tuple[int, str] | None
) -> None:
    made = _offer().order_of(topic, ANONYMOUS, headers, body)
    if isinstance(made, HttpOrder):
        assert problem is None
        assert (made.topic, made.body) == (topic, body)
    else:
        assert (made.kind.status, made.kind.name) == problem
        document = json.loads(made.answer().body)
        assert document["type"] == f"urn:onceward:problem:{made.kind.name}"
        assert document["status"] == made.answer().status == made.kind.status


def test_a_caller_without_the_right_is_told_so_of_an_offered_topic_only() -> None:
    plain = {"content-type": "text/plain"}
    refused = [_offer().order_of(one, SHOP, plain, b"") for one in ("seats", "others")]
    assert [isinstance(one, Problem) and one.kind.status for one in refused] == [403, 404]


def test_an_optional_key_that_is_missing_is_made_and_told() -> None:
    plain = {"content-type": "text/plain"}
    made = [_offer().order_of("seats", ANONYMOUS, plain, b"1") for _ in range(2)]
    assert isinstance(made[0], HttpOrder)
    assert isinstance(made[1], HttpOrder)
    assert made[0].key != made[1].key
    again = _offer().order_of("seats", ANONYMOUS, {**plain, "idempotency-key": made[0].key}, b"1")
    assert isinstance(again, HttpOrder)
    assert again.request_id == made[0].request_id


@pytest.mark.parametrize(
    ("prefer", "wait_s"),
    [
        ("", None),
        ("respond-async", None),
        ("respond-async, wait=10", 10.0),
        ("wait=99", 30.0),
        ("wait=0", 0.0),
        ("wait=-1", None),
        ("wait=ten", None),
        ("respond-async\nwait=5", 5.0),
        ("await=5", None),
    ],
)
def test_a_preferred_wait_is_capped(prefer: str, wait_s: float | None) -> None:
    made = _offer().order_of("payments", ANONYMOUS, {**KEYED, "prefer": prefer}, b"1")
    assert isinstance(made, HttpOrder)
    assert made.wait_s == wait_s


def _accepted(status: Status, *, is_repeat: bool = False, **changes: Any) -> Any:
    facts: dict[str, Any] = {"topic": "payments", "key": "order-7", "body": b"1"}
    order = HttpOrder(**{**facts, "request_id": status.request_id, **changes})
    return accepted_answer(order, status, is_repeat=is_repeat, now_ms=NOW_MS, token="")


def test_accepted_is_a_202_with_a_place_to_look_and_a_time_to_do_so() -> None:
    answer = _accepted(_status(State.PENDING))
    assert answer.status == 202
    assert answer.headers["Location"] == f"/v1/requests/{_status().request_id}"
    assert answer.headers["Retry-After"] == "1"
    assert "Idempotent-Replayed" not in answer.headers
    document = json.loads(answer.body)
    assert (document["state"], document["final"]) == ("PENDING", False)
    assert document["idempotency_key"] == "order-7"
    assert _accepted(_status(), is_repeat=True).headers["Idempotent-Replayed"] == "true"


def test_only_an_asked_for_outcome_is_a_200() -> None:
    ended = _status(State.SUCCEEDED, result={"receipt": 7})
    assert _accepted(ended, wait_s=5.0).status == 200
    assert _accepted(ended).status == 202
    assert _accepted(_status(), wait_s=5.0).status == 202
    assert "Retry-After" not in _accepted(ended).headers


@pytest.mark.parametrize(
    ("error", "status", "name"),
    [
        (NotSent("a", "Kafka at 10.0.0.1 is away"), 503, "not-accepted"),
        (SendUnknown("a", "Kafka at 10.0.0.1 is away"), 503, "unknown"),
        (RedisUnavailable("Redis at 10.0.0.1 is away"), 503, "unknown"),
        (PayloadMismatch("a"), 422, "other-payload"),
        (InvalidMessage("the key is text that UTF-8 cannot hold"), 400, "malformed"),
    ],
)
def test_an_error_says_what_to_do_under_which_key(error: Any, status: int, name: str) -> None:
    order = HttpOrder(topic="payments", request_id="a", key="order-7", body=b"1")
    answer = not_sent(order, error).answer()
    document = json.loads(answer.body)
    assert (answer.status, document["type"]) == (status, f"urn:onceward:problem:{name}")
    assert (document["request_id"], document["idempotency_key"]) == ("a", "order-7")
    assert ("Retry-After" in answer.headers) == (status == 503)
    assert b"10.0.0.1" not in answer.body


def test_a_tag_changes_with_what_is_shown_and_a_tag_that_is_known_is_a_304() -> None:
    running, ended = _status(), _status(State.SUCCEEDED, result=1)
    tag = etag_of(running)
    assert tag == etag_of(_status())
    assert len({tag, etag_of(ended), etag_of(_status(State.SUCCEEDED, result=2))}) == 3
    for header in (tag, f"W/{tag}", f'"x", {tag}', f'"x"\n{tag}', "*"):
        answer = status_answer(running, if_none_match=header, now_ms=NOW_MS)
        assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", tag)
    assert status_answer(ended, if_none_match=tag, now_ms=NOW_MS).status == 200


@pytest.mark.parametrize(
    ("stands_s", "after_s"), [(-5, 1), (0, 1), (19, 1), (20, 2), (120, 12), (9000, 30)]
)
def test_who_waits_long_asks_seldom(stands_s: int, after_s: int) -> None:
    assert retry_after_s(_status(), NOW_MS + stands_s * 1000) == after_s


def test_a_document_names_no_worker_and_no_offset() -> None:
    facts: dict[str, Any] = {
        "worker": "host-1",
        "partition": 3,
        "offset": 7,
        "payload_sha256": "ab",
    }
    document = document_of(_status(**facts), token="t.t")
    assert not set(facts) & set(document)
    here = f"/v1/requests/{_status().request_id}"
    assert document["links"] == {"self": here, "events": f"{here}/events?token=t.t"}


def test_a_resend_names_the_failure_that_was_read() -> None:
    failed = _status(State.FAILED, resend=True, generation=1)
    later = _status(State.FAILED, resend=True, generation=2)
    cases = {
        etag_of(failed): None,
        "*": None,
        None: 428,
        etag_of(later): 412,
    }
    for tag, refused in cases.items():
        problem = resendable(failed, tag)
        assert (problem and problem.kind.status) == refused
    for state in (State.PENDING, State.RUNNING, State.SUCCEEDED, State.IN_DOUBT, State.FAILED):
        problem = resendable(_status(state), "*")
        assert problem is not None
        assert problem.kind.status == 409


def test_kinds_of_problems_have_names_of_their_own() -> None:
    assert len({one.name for one in KINDS}) == len(KINDS) == 21


def test_a_bucket_fills_up_again_and_each_caller_has_its_own() -> None:
    limit = RateLimit("2/second")
    assert [limit.take("shop", now_s=at_s) for at_s in (0.0, 0.0, 0.0)] == [0.0, 0.0, 0.5]
    assert limit.take("bank", now_s=0.0) == 0.0
    assert limit.take("shop", now_s=0.5) == 0.0
    assert limit.take("shop", now_s=99.0) == 0.0


class Part(BaseModel):
    """A part of a payment."""

    amount: int


class Payment(BaseModel):
    """The model of the handler of payments."""

    amount: int
    parts: list[Part] = []


def _offer_of(topic: dict[str, str]) -> TopicOffer:
    return _offer(topics={"payments": topic})


def test_a_topics_model_is_checked_at_the_door_without_a_word_of_the_value() -> None:
    offer = _offer_of({"model": f"{__name__}:Payment"})
    faults = []
    for body in (b'{"amount":5}', b'{"amount":"4111-1111"}'):
        order = offer.order_of("payments", SHOP, KEYED, body)
        assert isinstance(order, HttpOrder)
        faults.append(offer.fault(order))
    assert faults == [None, "value is not a Payment: amount: int_parsing"]
    assert offer.is_checked("payments")
    assert offer.schemas["payments"]["required"] == ["amount"]


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ({"model": "no_such_module:Payment"}, "ModuleNotFoundError"),
        ({"model": f"{__name__}:Nobody"}, "AttributeError"),
        ({"model": f"{__name__}:Caller"}, "name a pydantic model"),
        ({"model": f"{__name__}:Payment", "schema": "a.json"}, "not both"),
    ],
)
def test_a_model_that_cannot_be_used_is_said_at_the_start(topic: Any, said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        _offer_of(topic)
