"""How far back Redis remembers: the witness that workers keep, and what a client concludes."""

import os

import pytest

from feedback.redis.memory import MARGIN_S, RedisMemory
from feedback.redis.store import StatusStore
from feedback.status import State
from tests.feedback.samples import a_write, wipe

HOUR_S = 3600.0
NOW_MS = 1_700_000_000_000


def ago_ms(seconds: float) -> int:
    return NOW_MS - int(seconds * 1000)


@pytest.mark.parametrize(
    ("memory", "doubt"),
    [
        (RedisMemory("", 0, "run.0", NOW_MS), None),
        (RedisMemory("run.0", 0, "run.0", NOW_MS), None),
        (RedisMemory("run.0", ago_ms(HOUR_S + MARGIN_S), "run.0", NOW_MS), None),
        (RedisMemory("run.0", ago_ms(HOUR_S), "run.0", NOW_MS), "no further back than 3600 s"),
        (RedisMemory("run.0", 0, "other.0", NOW_MS), "started again"),
        (RedisMemory("run.0", 0, "run.1", NOW_MS), "evicted"),
        (RedisMemory("", 0, "run.0", NOW_MS, is_known_there=False), "what this process has sent"),
    ],
    ids=["no-worker", "whole-life", "long-ago", "lately", "restarted", "evicted", "own-is-gone"],
)
def test_redis_is_doubted_where_it_may_have_forgotten_what_can_still_run(
    memory: RedisMemory, doubt: str | None
) -> None:
    said = memory.doubt(longest_s=HOUR_S)
    assert said == doubt if doubt is None else doubt in (said or "")


def test_the_first_worker_of_a_group_vouches_for_its_whole_life_and_no_later_one(
    store: StatusStore,
) -> None:
    assert not store.memory(None).is_witnessed
    store.agree_on_contents("j", is_first=True)
    first = store.memory(None)
    assert (first.since_ms, first.witness) == (0, first.name)
    word = store.agree_on_contents("j")
    assert store.memory(None).since_ms == 0
    # As after FLUSHALL.
    store.redis.delete(*store.redis.keys(f"{store.prefix}*"))
    assert store.agree_on_contents("j") != word
    second = store.memory(None)
    assert first.now_ms <= second.since_ms <= second.now_ms
    assert store.memory(None).doubt(longest_s=HOUR_S) is not None


def test_a_redis_that_was_started_again_remembers_since_the_next_heartbeat(
    store: StatusStore,
) -> None:
    store.agree_on_contents("j", is_first=True)
    word = store.agree_on_contents("j")
    store.redis.set(store.witness_key, f"{os.urandom(20).hex()}.0 0")
    assert store.memory(None).doubt(longest_s=HOUR_S) is not None
    assert store.agree_on_contents("j") == word
    found = store.memory(None)
    assert found.witness == found.name
    assert 0 < found.since_ms <= found.now_ms


def test_it_says_whether_a_request_is_still_known(store: StatusStore) -> None:
    store.write([a_write(State.PENDING)])
    assert store.memory("r").is_known_there
    wipe(store, "r")
    assert not store.memory("r").is_known_there
