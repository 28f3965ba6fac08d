"""Records, deliveries and rows as the unit tests need them."""

from __future__ import annotations

from typing import Any

from consumer.handlers.declaration import Handler
from consumer.handlers.delivery import Delivery, receive
from consumer.journal import Finish, Row
from consumer.loop.in_flight import InFlight
from consumer.loop.settlement import Settlement
from feedback.records.envelope import Record, payload_sha256

KEY, VALUE = b"card-1", b'{"amount":5}'
SHA = payload_sha256(KEY, VALUE)
TIMESTAMP_MS = 1_700_000_000_000
DEADLINE_S = 60.0


def record(**facts: Any) -> Record:
    """Return a record of topic `payments`, without headers unless they are given."""
    known: dict[str, Any] = {
        "topic": "payments",
        "partition": 3,
        "offset": 17,
        "timestamp_ms": TIMESTAMP_MS,
        "key": KEY,
        "value": VALUE,
        "headers": (),
    }
    return Record(**known | facts)


def named(request_id: str, attempt: int = 1) -> Record:
    """Return a record that names its request."""
    headers = (
        ("onceward-request-id", request_id.encode()),
        ("onceward-attempt", str(attempt).encode()),
    )
    return record(headers=headers)


def payments(**settings: Any) -> Handler:
    """Return the handler of topic `payments`."""
    known: dict[str, Any] = {"topic": "payments", "name": "m:f"}
    return Handler(function=lambda request: None, **known | settings)


def delivery(request_id: str, attempt: int = 1, *, buffered_s: float = 0.0) -> Delivery:
    """Return a delivery of a record that names its request."""
    found = receive(
        named(request_id, attempt),
        payments(),
        group="test",
        default_deadline_s=DEADLINE_S,
        now_s=buffered_s,
        now_ms=0,
    )
    assert isinstance(found, Delivery)
    return found


def settled(
    one: Delivery, state: str = "SUCCEEDED", *, generation: int = 1, **facts: Any
) -> Settlement:
    """Return the settlement of a run that ended so; `facts` are of its finish."""
    known: dict[str, Any] = {"code": None, "message": None, "result": None, "resend": False}
    finish = Finish(one.request_id, generation, state, **known | facts)
    return Settlement((one.request_id, generation), one, finish)


def begin(hands: InFlight, one: Delivery, *, generation: int = 1) -> None:
    """Let a run of a delivery begin, under a claim that the journal has granted."""
    hands.begin(one, row(one.request_id, "CLAIMED", generation=generation))


def row(request_id: str, state: str, **facts: Any) -> Row:
    """Return a row of the journal whose first run was claimed by worker `me`."""
    known: dict[str, Any] = dict.fromkeys(Row._fields)
    known |= {
        "request_id": request_id,
        "topic": "payments",
        "partition": 3,
        "offset": 17,
        "payload_sha256": SHA,
        "attempt": 1,
        "generation": 1,
        "deadline_at": TIMESTAMP_MS + 60_000,
        "state": state,
        "owner": "me",
        "resend": False,
        "voids": 0,
    }
    return Row(**known | facts)
