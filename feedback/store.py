"""Statuses, kept payloads, deadlines, heartbeats, the journal's id in Redis (contract, section 6).

The store carries out what `status.judge` allows; the rule itself runs inside Redis as one script.
Every method is one round trip for its whole batch, a second where the rule refused something or a
worker's heartbeat must be looked at. Safe to share between threads.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from redis import Redis
from redis.exceptions import NoScriptError

from feedback.clock import epoch_ms
from feedback.kept import KeptPayload
from feedback.redis_server import RedisSettings, guarded
from feedback.status import State, may_reopen
from feedback.status_script import PAYLOAD_DROP, PAYLOAD_KEEP, PAYLOAD_SET, SCRIPT
from feedback.statuses import (
    Refused,
    Status,
    StatusWrite,
    decode_hash,
    decode_refusal,
    status_of,
)

_SCRIPT_SHA = hashlib.sha1(SCRIPT.encode(), usedforsecurity=False).hexdigest()


class StatusStore:
    """The statuses of one group.

    Args:
        redis: a client from `connect`, or a fake that passes the store's contract suite.
        group: the Kafka consumer group; it is part of every key.
        settings: lifetimes, in seconds.
    """

    def __init__(self, redis: Redis, group: str, settings: RedisSettings) -> None:
        self.redis = redis
        self.prefix = f"onceward:{group}:"
        self._ttl_ms = int(settings.status_ttl_s * 1000)
        self._heartbeat_ttl_ms = int(settings.heartbeat_ttl_s * 1000)

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

    @property
    def journal_key(self) -> str:
        """The key of the id of the group's one journal."""
        return f"{self.prefix}journal"

    def write(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[Refused | None]:
        """Tell a batch of statuses; None for each that was taken.

        Args:
            writes: at most one for a request, or they are applied in their order.
            look_at: epoch ms of the resender's next look at those that are not in its set yet.
                Requests that cannot be reopened leave the set.

        Raises:
            RedisUnavailable: nothing is known of what was written; repeating is harmless.
        """
        if not writes:
            return []
        keys: list[str] = []
        arguments: list[str | bytes | int] = []
        now = str(epoch_ms())
        for write in writes:
            keys += (self.request_key(write.request_id), self.payload_key(write.request_id))
            arguments += self._arguments(write, now)
        open_ids, closed_ids = _by_openness(writes)
        with guarded():
            pipe = self.redis.pipeline(transaction=False)
            pipe.evalsha(_SCRIPT_SHA, len(keys), *keys, *arguments)
            if look_at is not None and open_ids:
                pipe.zadd(self.deadlines_key, dict.fromkeys(open_ids, look_at), nx=True)
            if closed_ids:
                pipe.zrem(self.deadlines_key, *closed_ids)
            replies = self._execute(pipe)
        told = [decode_refusal(reply) for reply in replies[0]]
        self._mend_deadlines(writes, told, now=int(now))
        return told

    def _mend_deadlines(
        self, writes: Sequence[StatusWrite], told: Sequence[Refused | None], *, now: int
    ) -> None:
        """Undo what refused writes did to the set: what stands there is open, or is not.

        Rare, and so a round trip of its own: an ending told late must not take a request that was
        reopened since away from the resender.
        """
        last = {write.request_id: refused for write, refused in zip(writes, told, strict=True)}
        stands_open = {
            request_id: may_reopen(refused.state, resend=refused.resend)
            for request_id, refused in last.items()
            if refused is not None
        }
        if not stands_open:
            return
        meant_open, meant_closed = _by_openness(writes)
        again = [one for one in meant_closed if stands_open.get(one, False)]
        gone = [one for one in meant_open if not stands_open.get(one, True)]
        with guarded(reached=True):
            pipe = self.redis.pipeline(transaction=False)
            if again:
                pipe.zadd(self.deadlines_key, dict.fromkeys(again, now), nx=True)
            if gone:
                pipe.zrem(self.deadlines_key, *gone)
            pipe.execute()

    def _arguments(self, write: StatusWrite, now: str) -> list[str | bytes | int]:
        fields: list[str | bytes | int] = [
            "status", write.state, "attempt", write.attempt,
            "payload_sha256", write.payload_sha256, "updated_at", now,
        ]  # fmt: skip
        if write.generation:
            fields += ("generation", write.generation)
        for name, value in write.fields.items():
            fields += (name, value)
        if write.payload is not None:
            action, payload = PAYLOAD_SET, write.payload.encode()
        elif may_reopen(write.state, resend=write.fields.get("resend") == "1"):
            action, payload = PAYLOAD_KEEP, b""
        else:
            action, payload = PAYLOAD_DROP, b""
        return [
            write.state, write.attempt, write.generation, write.payload_sha256,
            "1" if write.restore else "0", "*" if write.held_by is None else write.held_by,
            self._ttl_ms, self.events_channel(write.request_id), action, payload,
            len(fields), *fields,
        ]  # fmt: skip

    def _execute(self, pipe: Any) -> list[Any]:
        commands = list(pipe.command_stack)
        try:
            return cast(list[Any], pipe.execute())
        except NoScriptError:
            # A restarted Redis has forgotten the script.
            self.redis.script_load(SCRIPT)
            pipe.command_stack = commands
            return cast(list[Any], pipe.execute())

    def read(self, request_id: str) -> Status:
        """Return what is known of one request; UNKNOWN when nothing is."""
        return self.read_many([request_id])[0]

    def read_many(self, request_ids: Sequence[str]) -> list[Status]:
        """Return the statuses in the order of the ids, LOST derived from the heartbeats.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            pipe = self.redis.pipeline(transaction=False)
            for request_id in request_ids:
                pipe.hgetall(self.request_key(request_id))
            hashes = [decode_hash(found) for found in pipe.execute()]
            holders = {
                found.get("worker", "") for found in hashes if found.get("status") == State.ACCEPTED
            }
            alive = self._alive(holders - {""})
        return [
            status_of(request_id, found, alive)
            for request_id, found in zip(request_ids, hashes, strict=True)
        ]

    def _alive(self, worker_ids: Iterable[str]) -> set[str]:
        ids = list(worker_ids)
        if not ids:
            return set()
        pipe = self.redis.pipeline(transaction=False)
        for worker_id in ids:
            pipe.exists(self.worker_key(worker_id))
        return {worker_id for worker_id, found in zip(ids, pipe.execute(), strict=True) if found}

    def kept_payload(self, request_id: str) -> KeptPayload | None:
        """Return what a resend needs, or None when nothing was kept or it is gone.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            raw = cast("bytes | None", self.redis.get(self.payload_key(request_id)))
        return None if raw is None else KeptPayload.decode(raw)

    def forget(self, request_id: str) -> None:
        """Remove all trace of a request that was certainly not sent.

        Raises:
            RedisUnavailable: the trace may still be there.
        """
        with guarded():
            pipe = self.redis.pipeline(transaction=False)
            pipe.delete(self.request_key(request_id), self.payload_key(request_id))
            pipe.zrem(self.deadlines_key, request_id)
            pipe.execute()

    def beat(self, worker_id: str, load: Mapping[str, object]) -> None:
        """Say that the worker is alive for another `heartbeat_ttl_s`.

        Raises:
            RedisUnavailable: readers may soon take the worker for dead.
        """
        with guarded():
            self.redis.set(self.worker_key(worker_id), json.dumps(load), px=self._heartbeat_ttl_ms)

    def end_heartbeat(self, worker_id: str) -> None:
        """Say that the worker is gone, at once.

        Raises:
            RedisUnavailable: the key goes by itself after `heartbeat_ttl_s`.
        """
        with guarded():
            self.redis.delete(self.worker_key(worker_id))

    def agree_on_journal(self, journal_id: str) -> str:
        """Put the journal's id there if none is, and return the one that stands.

        Two workers of a group with two journals would run requests twice (contract, section 8).

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            stands = cast(
                "bytes | None", self.redis.set(self.journal_key, journal_id, nx=True, get=True)
            )
        return journal_id if stands is None else stands.decode()

    def server_version(self) -> str:
        """Return the server's version.

        Raises:
            RedisUnavailable: Redis did not answer, with its reason.
        """
        with guarded():
            info = self.redis.info("server")
        return str(info.get("redis_version", "unknown"))

    def close(self) -> None:
        """Give the connections back."""
        self.redis.close()


def _by_openness(writes: Sequence[StatusWrite]) -> tuple[list[str], list[str]]:
    """Return the requests that the last of their writes leaves open, and the others."""
    is_open = {
        write.request_id: may_reopen(write.state, resend=write.fields.get("resend") == "1")
        for write in writes
    }
    open_ids = [request_id for request_id, still in is_open.items() if still]
    return open_ids, [request_id for request_id, still in is_open.items() if not still]
