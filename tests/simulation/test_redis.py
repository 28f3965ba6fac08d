"""The simulated Redis takes and refuses what the script does, and holds the same."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from fakeredis import FakeRedis, FakeServer

from feedback.kept import KeptPayload
from feedback.settings import RedisSection
from feedback.status import BEFORE_CLAIM, STORED, State
from feedback.statuses import Origin, Refused, StatusWrite
from feedback.store import StatusStore
from tests.simulation.clock import Clock
from tests.simulation.redis import RedisServer

SEQUENCES = 200
PAYLOAD = KeptPayload("t", b"k", b"v")
ORIGIN = Origin("t", 0, 7, 1_790_000_000_000)


def _ignore(before: Mapping[str, str] | None, write: StatusWrite, refused: Refused | None) -> None:
    """Look at no single write."""


def _draw(draw: Random) -> StatusWrite:
    state = draw.choice(STORED)
    fields = {"worker": draw.choice(("me", "other", ""))}
    if state is State.FAILED:
        fields |= {"resend": draw.choice("011"), "code": "NO"}
    if state is State.ACCEPTED:
        fields |= ORIGIN.fields
    return StatusWrite(
        request_id=draw.choice(("a", "b")),
        state=state,
        attempt=draw.randint(1, 3),
        generation=0 if state in BEFORE_CLAIM else draw.randint(1, 2),
        payload_sha256=draw.choice("xxxxy"),
        fields=fields,
        payload=PAYLOAD if state is State.PENDING and draw.random() < 0.7 else None,
        restore=state not in BEFORE_CLAIM and draw.random() < 0.2,
        held_by="me" if state is State.ACCEPTED and draw.random() < 0.3 else None,
        origin=ORIGIN if draw.random() < 0.5 else None,
    )


def test_random_writes_are_judged_alike_and_leave_the_same() -> None:
    for number in range(SEQUENCES):
        draw = Random(number)
        client = FakeRedis(server=FakeServer())
        store = StatusStore(client, "g", RedisSection())
        simulated = RedisServer(Clock(), _ignore)
        for place in range(6):
            one = _draw(draw)
            look_at = draw.choice((None, 10**13 + place))
            answer = store.write([one], look_at=look_at)
            what = f"sequence {number}, write {place}: {one}"
            assert simulated.write([one], look_at, 0) == answer, what
        for request_id in ("a", "b"):
            found: dict[Any, Any] = client.hgetall(store.request_key(request_id))
            stands = {name.decode(): value.decode() for name, value in found.items()}
            expected = dict(simulated.hashes.get(request_id, {}))
            stands.pop("updated_at", None)
            expected.pop("updated_at", None)
            assert stands == expected, f"sequence {number}"
            kept = store.kept_payload(request_id)
            assert kept == simulated.payloads.get(request_id), f"sequence {number}"
        due: list[Any] = client.zrange(store.deadlines_key, 0, -1)
        is_due = {name.decode() for name in due}
        assert is_due == set(simulated.deadlines), f"sequence {number}"
        store.close()
