"""Statuses, kept payloads, deadlines, heartbeats, the journal's id in Redis (docs: Redis keys).

The store writes as `status.judge` allows; the rule itself runs inside Redis as one script. Every
method is one round trip for its whole batch. There is a second one where a record's coordinates are
missing, or a worker's heartbeat must be read. Safe to share between threads.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from redis import Redis
from redis.exceptions import NoScriptError, OutOfMemoryError, ResponseError

from feedback.clock import monotonic_s
from feedback.errors import SettingsError
from feedback.observer import Observer, observed
from feedback.records.stored_payload import StoredPayload
from feedback.redis.memory import KEEP, LOOK, RedisMemory, decode_look
from feedback.redis.sent_write import SentScript, SentWrite
from feedback.redis.server import RedisSettings, execute, guarded
from feedback.redis.status_script import FORGET, PLACE, SCRIPT, UNPLACED
from feedback.redis.store_calls import StoreCalls, holders_of
from feedback.statuses import (
    Refused,
    Replaced,
    Status,
    StatusWrite,
    WriteAnswer,
    decode_answer,
    decode_hash,
    refusals_of,
    status_of,
)

_HIGHEST = """\
local stands, mine = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if mine <= stands then return stands end
redis.call('SET', KEYS[1], mine)
return mine
"""


class StatusStore(StoreCalls):
    """The statuses of one group.

    Args:
        redis: a client from `connect`, or a fake that passes the store's contract suite.
        group: the Kafka consumer group; it is part of every key.
        settings: lifetimes, in seconds.
        observers: receive the writes, the reads and the heartbeats.
    """

    def __init__(
        self,
        redis: Redis,
        group: str,
        settings: RedisSettings,
        observers: Sequence[Observer] = (),
    ) -> None:
        super().__init__(group, settings)
        self._observers = observers
        self.is_closed = False
        self.redis = redis
        self._heartbeat_ttl_ms = int(settings.heartbeat_ttl_s * 1000)

    @property
    def timeline_key(self) -> str:
        """The key of the timeline that the journal's database writes on."""
        return f"{self.journal_key}:timeline"

    @property
    def journal_key(self) -> str:
        """The key of the id of the group's one journal."""
        return f"{self.prefix}journal"

    def write(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[Refused | None]:
        """Write a batch of statuses; None for each that was accepted.

        Args:
            writes: at most one for a request, or they are applied in their order.
            look_at: epoch ms of the resender's next check of those that are not in its set yet.
                Requests that cannot be reopened leave the set.

        Raises:
            RedisRefused: one of the writes is at fault, or its key has another type of value;
                `write_apart` finds out which.
            RedisUnavailable: the write may or may not have been done; repeating is harmless.
        """
        with observed(self._observers, "status"):
            return refusals_of(self.replace(writes, look_at=look_at))

    def replace(
        self, writes: Sequence[StatusWrite], *, look_at: int | None = None
    ) -> list[WriteAnswer]:
        """Write a batch of statuses as `write` does; return those that were replaced.

        Those are the statuses before each PENDING of a next attempt, for `forget`. A write whose
        key holds another type of value is answered by the error, and the others are done.

        Raises:
            RedisRefused: one of the writes is at fault.
            RedisUnavailable: as for `write`.
        """
        if not writes:
            return []
        with guarded():
            pipe = self.redis.pipeline(transaction=False)
            self.fill_write(pipe, writes, look_at=look_at)
            (replies,) = self._execute(pipe)
        return self._answers(writes, replies)

    def send(self, writes: Sequence[StatusWrite], *, look_at: int | None = None) -> SentWrite:
        """Send a batch of statuses as `write` does, and let the caller read the answers later.

        Raises:
            RedisRefused: one of the writes is at fault.
            RedisUnavailable: as for `write`.
        """
        began_s = monotonic_s()
        with guarded():
            script = SentScript(self.redis)
            self.fill_write(script, writes, look_at=look_at)
        return SentWrite(
            script,
            answers_of=lambda replies: refusals_of(self._answers(writes, replies)),
            write_again=lambda: self.write(writes, look_at=look_at),
            waited_s=monotonic_s() - began_s,
            took=self._took,
        )

    def _took(self, seconds: float) -> None:
        # No `begins`: an intake that writes is no sign that the thread of statuses lives.
        for one in self._observers:
            one.took("status", seconds)

    def _answers(
        self, writes: Sequence[StatusWrite], replies: Sequence[bytes | int]
    ) -> list[WriteAnswer]:
        if UNPLACED in replies:
            self._place(writes, replies)
        return [decode_answer(reply) for reply in replies]

    def _place(self, writes: Sequence[StatusWrite], replies: Sequence[bytes | int]) -> None:
        """Write the coordinates of records that Redis lacks; rare, so a trip of its own."""
        keys, words = self.unplaced(writes, replies)
        if keys:
            with guarded(reached=True):
                self.redis.eval(PLACE, len(keys), *keys, *words)

    def _execute(self, pipe: Any) -> list[Any]:
        commands = list(pipe.command_stack)
        try:
            return execute(pipe)
        except NoScriptError:
            # A restarted Redis has forgotten the script.
            self.redis.script_load(SCRIPT)
            pipe.command_stack = commands
            return execute(pipe)

    def read(self, request_id: str) -> Status:
        """Return the status of one request; UNKNOWN when there is none."""
        return self.read_many([request_id])[0]

    def read_many(self, request_ids: Sequence[str]) -> list[Status]:
        """Return the statuses in the order of the ids, LOST derived from the heartbeats.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with observed(self._observers, "read"), guarded():
            pipe = self.redis.pipeline(transaction=False)
            self.fill_reads(pipe, request_ids)
            hashes = [decode_hash(found) for found in execute(pipe)]
            alive = self.alive(holders_of(hashes))
        return [
            status_of(request_id, found, alive)
            for request_id, found in zip(request_ids, hashes, strict=True)
        ]

    def alive(self, worker_ids: Iterable[str]) -> set[str]:
        """Return which of these workers have a heartbeat.

        Raises:
            RedisUnavailable: nobody knows.
        """
        ids = list(worker_ids)
        if not ids:
            return set()
        pipe = self.redis.pipeline(transaction=False)
        self.fill_heartbeats(pipe, ids)
        with guarded():
            found = execute(pipe)
        return {worker_id for worker_id, is_there in zip(ids, found, strict=True) if is_there}

    def heartbeats(self, worker_ids: Iterable[str]) -> dict[str, tuple[bytes, float]]:
        """Return the heartbeats of these workers: the content, and the seconds since it was told.

        Args:
            worker_ids: those without a heartbeat are left out.

        Raises:
            RedisUnavailable: nobody knows.
        """
        ids = list(worker_ids)
        pipe = self.redis.pipeline(transaction=False)
        for worker_id in ids:
            pipe.get(self.worker_key(worker_id))
            pipe.pttl(self.worker_key(worker_id))
        with guarded():
            found = execute(pipe) if ids else []
        return {
            worker_id: (value, max(0, self._heartbeat_ttl_ms - left_ms) / 1000)
            for worker_id, value, left_ms in zip(ids, found[::2], found[1::2], strict=True)
            if value is not None
        }

    def kept_payload(self, request_id: str) -> StoredPayload | None:
        """Return the payload for a resend; None when none of ours was stored, or it is gone.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        return self.kept_payloads([request_id])[0]

    def kept_payloads(self, request_ids: Sequence[str]) -> list[StoredPayload | None]:
        """Return payloads as `kept_payload` does, in the order of the ids.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with observed(self._observers, "read"), guarded():
            pipe = self.redis.pipeline(transaction=False)
            for request_id in request_ids:
                pipe.get(self.payload_key(request_id))
            return [StoredPayload.read(raw) for raw in execute(pipe)]

    def forget(
        self,
        request_id: str,
        *,
        attempt: int,
        payload_sha256: str,
        deadline_at: int | None,
        replaced: Replaced | None = None,
    ) -> bool:
        """Take back the status of a sending that failed; return whether clients see a change.

        Only the status of this very sending is taken back: PENDING with the same attempt, payload
        and deadline. Then the replaced status is restored, or no trace is left of a first attempt.
        A later status of another writer stays, and so does a PENDING that another sending wrote
        too.

        Args:
            deadline_at: epoch ms, as in its PENDING.
            replaced: the answer of `replace` to that PENDING.

        Raises:
            RedisUnavailable: the trace may still be there.
        """
        keys, facts = self.forgetting(
            request_id,
            attempt=attempt,
            payload_sha256=payload_sha256,
            deadline_at=deadline_at,
            replaced=replaced,
        )
        with guarded():
            return bool(self.redis.eval(FORGET, len(keys), *keys, *facts))

    def beat(self, worker_id: str, load: Mapping[str, object]) -> str:
        """Record that the worker is alive for another `heartbeat_ttl_s`.

        Returns the server's `run_id`, a new one after each of its starts; empty when this user may
        not read it.

        Raises:
            RedisUnavailable: readers may soon take the worker for dead.
        """
        key = self.worker_key(worker_id)
        with observed(self._observers, "heartbeat"), guarded():
            pipe = self.redis.pipeline(transaction=False)
            pipe.set(key, json.dumps(load), px=self._heartbeat_ttl_ms)
            pipe.info("server")
            told, server = pipe.execute(raise_on_error=False)
            # A full server takes no new value, but a value that is there may live on.
            is_full = isinstance(told, OutOfMemoryError)
            lives_on = is_full and self.redis.pexpire(key, self._heartbeat_ttl_ms)
            if isinstance(told, Exception) and not lives_on:
                raise told
        # A foreign server may forbid INFO.
        return "" if isinstance(server, ResponseError) else str(server["run_id"])

    def end_heartbeat(self, worker_id: str) -> None:
        """Record that the worker is gone, at once.

        Raises:
            RedisUnavailable: the key expires by itself after `heartbeat_ttl_s`.
        """
        with guarded():
            self.redis.delete(self.worker_key(worker_id))

    def agree_on_journal(self, journal_id: str) -> str:
        """Store the journal's id if there is none, and return the one that is stored.

        Two workers of a group with two journals would run requests twice (docs: Tables).

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            stands = cast(
                "bytes | None", self.redis.set(self.journal_key, journal_id, nx=True, get=True)
            )
        return journal_id if stands is None else stands.decode()

    def agree_on_contents(self, journal_id: str, *, is_first: bool = False) -> str:
        """Return the word that is stored in Redis beside the journal's id; make a missing one.

        A new word says that Redis has lost its contents since. With it goes the witness of how far
        back this Redis remembers; see `memory`.

        Args:
            journal_id: stored with it, if there is none.
            is_first: whether the group had no worker before, so that there is nothing to forget.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        keys = (self.journal_key, f"{self.prefix}contents", self.witness_key)
        facts = (journal_id, os.urandom(8).hex(), "1" if is_first else "0")
        with guarded():
            found = self.redis.eval(KEEP, len(keys), *keys, *facts)
        return cast(bytes, found).decode()

    def memory(self, request_id: str | None) -> RedisMemory:
        """Return how far back Redis remembers.

        Args:
            request_id: a request; the answer also says whether it is still known there.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        keys = self.remembering(request_id)
        with guarded():
            return decode_look(self.redis.eval(LOOK, len(keys), *keys))

    def agree_on_timeline(self, timeline: int) -> int:
        """Store the timeline of the journal's database if it is the highest; return the highest.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            return cast("int", self.redis.eval(_HIGHEST, 1, self.timeline_key, timeline))

    def server_version(self) -> str:
        """Return the server's version.

        Raises:
            SettingsError: this kind or version of Redis is not supported.
            RedisUnavailable: Redis did not answer, with its reason.
        """
        with guarded():
            info = self.redis.info("server")
            self.redis.publish(self.events_channel("check"), "")
        mode = str(info.get("redis_mode", "standalone"))
        if mode != "standalone":
            raise SettingsError(f"this is a Redis {mode.title()}: name one primary in [redis] url")
        return str(info.get("redis_version", "unknown"))

    def evicts_by(self) -> str:
        """Return the policy by which a full server evicts keys; empty where it does not.

        Raises:
            RedisUnavailable: Redis did not answer, with its reason.
        """
        with guarded():
            policy = str(self.redis.info("memory").get("maxmemory_policy", "noeviction"))
        return "" if policy == "noeviction" else policy

    def close(self) -> None:
        """Close the connections."""
        self.is_closed = True
        self.redis.close()
