"""The simulated Redis takes and refuses what the script does, and holds the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from fakeredis import FakeRedis, FakeServer

from feedback.records.stored_payload import StoredPayload
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from feedback.status import BEFORE_CLAIM, STORED, State
from feedback.statuses import Origin, Refused, Replaced, StatusWrite, WriteAnswer, refusals_of
from tests.simulation.clock import Clock
from tests.simulation.redis import RedisServer

Told = tuple[StatusWrite, tuple[WriteAnswer, WriteAnswer]]

SEQUENCES = 200
PAYLOAD = StoredPayload("t", b"k", b"v")
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
    if state is State.PENDING and draw.random() < 0.9:
        fields = {"deadline_at": str(draw.randint(7, 9)), "topic": draw.choice("ttu")}
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
        reopens=draw.choice((None, 0, 1)) if state in BEFORE_CLAIM else None,
    )


def _taken_back(
    draw: Random, store: StatusStore, simulated: RedisServer, told: Sequence[Told]
) -> bool:
    """Take back one of the writes that were told, on both; say whether they did the same."""
    write, answers = draw.choice(told)
    real, said_again = (one if isinstance(one, Replaced) else None for one in answers)
    facts = (write.attempt, write.payload_sha256, int(write.fields.get("deadline_at", "6")))
    attempt, sha, deadline_at = facts
    changed = store.forget(
        write.request_id,
        attempt=attempt,
        payload_sha256=sha,
        deadline_at=deadline_at,
        replaced=real,
    )
    return changed == simulated.forget(write.request_id, *facts, said_again)


def test_random_writes_are_judged_alike_and_leave_the_same() -> None:
    for number in range(SEQUENCES):
        draw = Random(number)
        client = FakeRedis(server=FakeServer())
        store = StatusStore(client, "g", RedisSection())
        simulated = RedisServer(Clock(), _ignore)
        told: list[Told] = []
        for place in range(6):
            one = _draw(draw)
            look_at = draw.choice((None, 10**13 + place))
            (answer,) = store.replace([one], look_at=look_at)
            (same,) = simulated.write([one], look_at)
            what = f"sequence {number}, write {place}: {one}"
            assert refusals_of([same]) == refusals_of([answer]), what
            told.append((one, (answer, same)))
            if draw.random() < 0.4:
                assert _taken_back(draw, store, simulated, told), what
        for request_id in ("a", "b"):
            found: dict[Any, Any] = client.hgetall(store.request_key(request_id))
            stands = {name.decode(): value.decode() for name, value in found.items()}
            expected = dict(simulated.hashes.get(request_id, {}))
            stands.pop("updated_at", None)
            # Each has starts of its own.
            assert ("told_in" in stands) == ("told_in" in expected), f"sequence {number}"
            stands.pop("told_in", None)
            expected.pop("told_in", None)
            expected.pop("updated_at", None)
            # Each packs in its own way what is to be put back.
            assert (stands.pop("replaced", None) is None) == (
                expected.pop("replaced", None) is None
            ), f"sequence {number}"
            assert stands == expected, f"sequence {number}"
            kept = store.kept_payload(request_id)
            assert kept == simulated.payloads.get(request_id), f"sequence {number}"
        due: list[Any] = client.zrange(store.deadlines_key, 0, -1)
        is_due = {name.decode() for name in due}
        assert is_due == set(simulated.deadlines), f"sequence {number}"
        store.close()
