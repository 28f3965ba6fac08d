"""What the store of statuses asks Redis, and what the answers mean: the same for threads (`store`)
and for asyncio (`async_store`), which only carry it there and back. Pure: a pipeline is filled here
and never sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from feedback.redis_server import RedisSettings
from feedback.script_call import arguments_of, by_openness
from feedback.status import State, may_reopen
from feedback.status_script import SCRIPT, UNPLACED
from feedback.statuses import Refused, Replaced, StatusWrite

SCRIPT_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class StoreCalls:
    """The keys of one group, and the calls on them.

    Args:
        group: the Kafka consumer group; it is part of every key.
        settings: lifetimes, in seconds.
    """

    def __init__(self, group: str, settings: RedisSettings) -> None:
        self.prefix = f"onceward:{group}:"
        self._ttl_ms = int(settings.status_ttl_s * 1000)

    def request_key(self, request_id: str) -> str:
        """Return the key of the request's hash."""
        return f"{self.prefix}request:{{{request_id}}}"

    def payload_key(self, request_id: str) -> str:
        """Return the key of the kept payload; it shares the hash's cluster slot."""
        return f"{self.prefix}payload:{{{request_id}}}"

    def events_channel(self, request_id: str) -> str:
        """Return the channel on which each change of the status is published."""
        return f"{self.prefix}events:{{{request_id}}}"

    @property
    def deadlines_key(self) -> str:
        """The sorted set of requests by the time of the next look (epoch ms)."""
        return f"{self.prefix}deadlines"

    def worker_key(self, worker_id: str) -> str:
        """Return the key that exists while the worker is alive."""
        return f"{self.prefix}worker:{worker_id}"

    def fill_write(
        self, pipe: Any, writes: Sequence[StatusWrite], *, look_at: int | None, now: int
    ) -> int:
        """Fill a pipeline with a batch of statuses; return where the script's replies will stand.

        Args:
            now: epoch ms.
        """
        keys: list[str] = []
        arguments: list[str | bytes | int] = []
        for write in writes:
            keys += (self.request_key(write.request_id), self.payload_key(write.request_id))
            channel = self.events_channel(write.request_id)
            arguments += arguments_of(write, now=str(now), ttl_ms=self._ttl_ms, channel=channel)
        open_ids, closed_ids = by_openness(writes)
        if look_at is not None and open_ids:
            # First: a Redis that is killed in between must not have a PENDING that no resender
            # ever looks at. An entry without a status is dropped at its first look.
            pipe.zadd(self.deadlines_key, dict.fromkeys(open_ids, look_at), nx=True)
        place = len(pipe.command_stack)
        pipe.evalsha(SCRIPT_SHA, len(keys), *keys, *arguments)
        if closed_ids:
            pipe.zrem(self.deadlines_key, *closed_ids)
        return place

    def unplaced(
        self, writes: Sequence[StatusWrite], replies: Sequence[bytes | int]
    ) -> tuple[list[str], list[str]]:
        """Return keys and words that tell where requests came from, where Redis did not know."""
        keys: list[str] = []
        words: list[str] = []
        for write, reply in zip(writes, replies, strict=True):
            if reply == UNPLACED and write.origin is not None:
                keys.append(self.request_key(write.request_id))
                words += [word for pair in write.origin.fields.items() for word in pair]
        return keys, words

    def fill_mend(
        self, pipe: Any, writes: Sequence[StatusWrite], told: Sequence[Refused | None], *, now: int
    ) -> bool:
        """Fill a pipeline with what undoes what refused writes did to the set of deadlines; say
        whether there is anything: what stands there is open, or is not.

        Rare, and so a round trip of its own: an ending told late must not take a request that was
        reopened since away from the resender.
        """
        last = {write.request_id: refused for write, refused in zip(writes, told, strict=True)}
        stands_open = {
            request_id: may_reopen(refused.state, resend=refused.resend)
            for request_id, refused in last.items()
            if refused is not None
        }
        meant_open, meant_closed = by_openness(writes)
        again = [one for one in meant_closed if stands_open.get(one, False)]
        gone = [one for one in meant_open if not stands_open.get(one, True)]
        if again:
            pipe.zadd(self.deadlines_key, dict.fromkeys(again, now), nx=True)
        if gone:
            pipe.zrem(self.deadlines_key, *gone)
        return bool(stands_open)

    def fill_reads(self, pipe: Any, request_ids: Iterable[str]) -> None:
        """Fill a pipeline with the reading of hashes."""
        for request_id in request_ids:
            pipe.hgetall(self.request_key(request_id))

    def fill_heartbeats(self, pipe: Any, worker_ids: Iterable[str]) -> None:
        """Fill a pipeline with the questions whether workers have a heartbeat."""
        for worker_id in worker_ids:
            pipe.exists(self.worker_key(worker_id))

    def forgetting(
        self,
        request_id: str,
        *,
        attempt: int,
        payload_sha256: str,
        deadline_at: int | None,
        replaced: Replaced | None,
    ) -> tuple[tuple[str, ...], tuple[str | bytes, ...]]:
        """Return keys and arguments of the script that takes back what one sending told."""
        keys = (self.request_key(request_id), self.payload_key(request_id), self.deadlines_key)
        before = b"" if replaced is None else replaced.packed
        channel = self.events_channel(request_id)
        facts = (str(attempt), payload_sha256, str(deadline_at), request_id, before, channel)
        return keys, facts


def holders_of(hashes: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the workers on whose heartbeat it depends whether a request is LOST."""
    holders = {one.get("worker", "") for one in hashes if one.get("status") == State.ACCEPTED}
    return holders - {""}
