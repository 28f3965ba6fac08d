"""Writes as clients and workers make them."""

from typing import Any

from feedback.records.stored_payload import StoredPayload
from feedback.redis.store import StatusStore
from feedback.status import State
from feedback.statuses import StatusWrite

SHA = "a" * 64
OTHER_SHA = "b" * 64
PAYLOAD = StoredPayload("payments", b"key", b"value", (("trace", b"1"),))


def a_write(state: State, request_id: str = "r", **facts: Any) -> StatusWrite:
    """Return a write of attempt 1; states after a claim are of generation 1."""
    before_claim = state in (State.PENDING, State.ACCEPTED)
    given = {"attempt": 1, "generation": 0 if before_claim else 1, "payload_sha256": SHA} | facts
    return StatusWrite(request_id=request_id, state=state, **given)


def wipe(store: StatusStore, request_id: str) -> None:
    """Let Redis forget all of a request, whatever stands there."""
    store.redis.delete(store.request_key(request_id), store.payload_key(request_id))
    store.redis.zrem(store.deadlines_key, request_id)
