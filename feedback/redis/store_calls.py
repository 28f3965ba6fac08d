"""The calls of the status store to Redis, and the meaning of the answers. Pure.

They are the same for threads (`store`) and for asyncio (`async_store`), which only send them and
return the replies. A pipeline is filled here and never sent.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from feedback.redis.script_call import arguments_of
from feedback.redis.server import RedisSettings
from feedback.redis.status_script import SCRIPT, UNPLACED
from feedback.status import STORED, State
from feedback.statuses import Replaced, StatusWrite

SCRIPT_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class StoreCalls:
    """The keys of one group, and the calls on them.

    Args:
        group: the Kafka consumer group; it is part of every key.
        settings: lifetimes, in seconds.
    """

    def __init__(self, group: str, settings: RedisSettings) -> None:
        self.group = group
        self.prefix = f"onceward:{group}:"
        self._ttl_ms: dict[State, int] = {
            state: int(settings.ttl_s(state) * 1000) for state in STORED
        }

    def request_key(self, request_id: str) -> str:
        """Return the key of the request's hash."""
        return f"{self.prefix}request:{{{request_id}}}"

    def payload_key(self, request_id: str) -> str:
        """Return the key of the stored payload; it shares the hash's cluster slot."""
        return f"{self.prefix}payload:{{{request_id}}}"

    def events_channel(self, request_id: str) -> str:
        """Return the channel on which each change of the status is published."""
        return f"{self.prefix}events:{{{request_id}}}"

    @property
    def deadlines_key(self) -> str:
        """The sorted set of requests by the time of the next check (epoch ms)."""
        return f"{self.prefix}deadlines"

    @property
    def witness_key(self) -> str:
        """The key of the witness of how far back Redis remembers; see `memory`."""
        return f"{self.prefix}witness"

    def worker_key(self, worker_id: str) -> str:
        """Return the key that exists while the worker is alive."""
        return f"{self.prefix}worker:{worker_id}"

    def fill_write(self, pipe: Any, writes: Sequence[StatusWrite], *, look_at: int | None) -> None:
        """Fill a pipeline with a batch of statuses; its one reply has the script's replies."""
        keys: list[str] = []
        arguments: list[str | bytes | int] = ["" if look_at is None else look_at]
        for write in writes:
            keys += (self.request_key(write.request_id), self.payload_key(write.request_id))
            channel = self.events_channel(write.request_id)
            arguments += arguments_of(write, ttl_ms=self._ttl_ms[write.state], channel=channel)
        keys.append(self.deadlines_key)
        pipe.evalsha(SCRIPT_SHA, len(keys), *keys, *arguments)

    def unplaced(
        self, writes: Sequence[StatusWrite], replies: Sequence[bytes | int]
    ) -> tuple[list[str], list[str]]:
        """Return keys and values for the coordinates of records that Redis lacks."""
        keys: list[str] = []
        words: list[str] = []
        for write, reply in zip(writes, replies, strict=True):
            if reply == UNPLACED and write.origin is not None:
                keys.append(self.request_key(write.request_id))
                words += [word for pair in write.origin.fields.items() for word in pair]
        return keys, words

    def fill_reads(self, pipe: Any, request_ids: Iterable[str]) -> None:
        """Fill a pipeline with the reading of hashes."""
        for request_id in request_ids:
            pipe.hgetall(self.request_key(request_id))

    def fill_heartbeats(self, pipe: Any, worker_ids: Iterable[str]) -> None:
        """Fill a pipeline with the questions whether workers have a heartbeat."""
        for worker_id in worker_ids:
            pipe.exists(self.worker_key(worker_id))

    def remembering(self, request_id: str | None) -> tuple[str, ...]:
        """Return the keys of the script that reads how far back Redis remembers."""
        asked = () if request_id is None else (self.request_key(request_id),)
        return self.witness_key, *asked

    def forgetting(
        self,
        request_id: str,
        *,
        attempt: int,
        payload_sha256: str,
        deadline_at: int | None,
        replaced: Replaced | None,
    ) -> tuple[tuple[str, ...], tuple[str | bytes, ...]]:
        """Return keys and arguments of the script that takes back the status of one sending."""
        keys = (self.request_key(request_id), self.payload_key(request_id), self.deadlines_key)
        before = b"" if replaced is None else replaced.packed
        channel = self.events_channel(request_id)
        facts = (str(attempt), payload_sha256, str(deadline_at), request_id, before, channel)
        return keys, facts


def holders_of(hashes: Iterable[Mapping[str, str]]) -> set[str]:
    """Return the workers whose heartbeats decide whether a request is LOST."""
    holders = {one.get("worker", "") for one in hashes if one.get("status") == State.ACCEPTED}
    return holders - {""}
