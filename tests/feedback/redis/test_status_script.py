"""The script in Redis says what the pure rule says, for every write over every stored status."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice, product
from typing import Any, cast

import pytest
from fakeredis import FakeRedis
from redis import Redis

from feedback.redis.store import StatusStore
from feedback.status import (
    BEFORE_CLAIM,
    STORED,
    RefusalReason,
    State,
    StoredFacts,
    WriteFacts,
    judge,
)
from feedback.statuses import StatusWrite
from tests.feedback.samples import OTHER_SHA, SHA

ATTEMPTS = (1, 2)
GENERATIONS = (0, 1, 2)
STANDS = """
for _, key in ipairs(KEYS) do
  redis.call('DEL', key)
  if #ARGV > 0 then redis.call('HSET', key, unpack(ARGV)) end
end
"""
FOUND = """
local found = {}
for i, key in ipairs(KEYS) do found[i] = redis.call('HGET', key, 'status') end
return found
"""


# The fake runs the same text in another Lua, slowly: it is asked about one status of each state.
STRIDE_OF_THE_FAKE = 13


def every_stored() -> Iterator[StoredFacts]:
    for state, attempt, generation, resend, worker in product(
        STORED, ATTEMPTS, GENERATIONS, (False, True), ("", "w1")
    ):
        # The worker is looked at before everything else: one state shows what an empty name does.
        if worker or state is State.ACCEPTED:
            topic = "t" if worker else ""
            yield StoredFacts(
                state, attempt, generation, SHA, resend=resend, worker=worker, topic=topic
            )


def every_write() -> Iterator[WriteFacts]:
    for state, attempt, generation, sha, restore, held_by in product(
        STORED, ATTEMPTS, GENERATIONS, (SHA, OTHER_SHA), (False, True), (None, "w1", "w2")
    ):
        write = WriteFacts(state, attempt, generation, sha, restore=restore, held_by=held_by)
        yield write
        if state in BEFORE_CLAIM and not generation:
            yield from (replace(write, reopens=known) for known in GENERATIONS)
            yield from (replace(write, follows=seen) for seen in (0, *ATTEMPTS))
        if held_by is None and sha == SHA:
            yield from (replace(write, topic=topic) for topic in ("t", "other"))


WRITES = tuple(every_write())


def told(write: WriteFacts, request_id: str) -> StatusWrite:
    return StatusWrite(
        request_id,
        write.state,
        write.attempt,
        write.generation,
        write.payload_sha256,
        restore=write.restore,
        held_by=write.held_by,
        reopens=write.reopens,
        follows=write.follows,
        fields={"topic": write.topic} if write.topic else {},
    )


def hash_of(stored: StoredFacts) -> list[str]:
    fields = {
        "status": str(stored.state),
        "attempt": str(stored.attempt),
        "payload_sha256": stored.payload_sha256,
        "worker": stored.worker,
        "resend": "1" if stored.resend else "0",
    }
    if stored.topic:
        fields["topic"] = stored.topic
    if stored.generation:
        fields["generation"] = str(stored.generation)
    return [word for pair in fields.items() for word in pair]


class Bench:
    """The keys of one batch, all with the same status standing."""

    def __init__(self, redis: Redis, store: StatusStore) -> None:
        self._redis = redis
        self._store = store
        ids = [str(number) for number in range(len(WRITES))]
        self._keys = [store.request_key(one) for one in ids]
        self._writes = [told(one, at) for one, at in zip(WRITES, ids, strict=True)]

    def judged(self, stored: StoredFacts | None) -> list[RefusalReason | None]:
        """Return what the script says to every write, and check what it says stands there."""
        stands = [] if stored is None else hash_of(stored)
        self._redis.eval(STANDS, len(self._keys), *self._keys, *stands)
        answers = self._store.write(self._writes)
        for refused in filter(None, answers):
            if stored is None:
                assert refused.nothing_stands
                continue
            assert refused.state is stored.state
            seen = (refused.attempt, refused.generation, refused.resend)
            assert seen == (stored.attempt, stored.generation, stored.resend)
        return [None if refused is None else refused.reason for refused in answers]

    def found(self) -> Sequence[str | None]:
        """Return the status that stands under each key."""
        raw = cast(Any, self._redis.eval(FOUND, len(self._keys), *self._keys))
        return [None if one is None else one.decode() for one in raw]


@pytest.mark.parametrize(
    "redis", ["redis", pytest.param("fakeredis", marks=pytest.mark.long)], indirect=True
)
def test_the_script_judges_every_write_over_every_status_as_the_rule_does(
    redis: Redis, store: StatusStore
) -> None:
    bench = Bench(redis, store)
    stride = STRIDE_OF_THE_FAKE if isinstance(redis, FakeRedis) else 1
    for stored in islice(every_stored(), 0, None, stride):
        expected = [judge(stored, write) for write in WRITES]
        assert bench.judged(stored) == expected, stored
        standing = [
            str(write.state if refusal is None else stored.state)
            for write, refusal in zip(WRITES, expected, strict=True)
        ]
        assert bench.found() == standing, stored


def test_the_script_takes_where_nothing_stands_every_write_that_says_nothing_of_what_it_follows(
    redis: Redis, store: StatusStore
) -> None:
    bench = Bench(redis, store)
    assert bench.judged(None) == [judge(None, write) for write in WRITES]
    expected = [None if write.follows is not None else str(write.state) for write in WRITES]
    assert bench.found() == expected
