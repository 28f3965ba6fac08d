"""The set of open requests by their next check, shared by any number of resenders.

A resender that takes a due request leases it: its next check moves into the future, so that no
other takes it. If the resender is killed, the request comes back by itself. A lease, and a check
that was put off on purpose, end in half a millisecond. So the scan for lost requests brings other
checks forward and leaves these alone, and the next resender knows that an earlier one began and did
not finish. A check that a resender has set ends in a quarter: it is as far ahead as it should be.

One clock decides when a check is due, that of Redis, so that all resenders agree. The first check
of a request is written by a client or a worker with its own clock. A clock that is ahead delays it.
One that is behind makes it due at once, which costs one check more, since Redis' clock also tells
how old a status is. A client that is still sending cannot take back a request that a resender has
leased (`SendUnknown`). `hasten` brings back a check further ahead than any of ours (see
`Deadlines.page`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from feedback.errors import InvalidMessage
from feedback.records.envelope import check_request_id
from feedback.redis.server import guarded
from feedback.redis.store import StatusStore
from feedback.status import FINAL, STORED, State

_NOW = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
"""
_TAKE = f"""
{_NOW}
local lease = string.format('%.1f', now + ARGV[2] + 0.5)
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now),
                       'WITHSCORES', 'LIMIT', 0, ARGV[1])
local ids, unfinished = {{}}, {{}}
for i = 1, #due, 2 do
  redis.call('ZADD', KEYS[1], lease, due[i])
  ids[#ids + 1] = due[i]
  if tonumber(due[i + 1]) % 1 == 0.5 then unfinished[#unfinished + 1] = due[i] end
end
local server = #ids > 0 and redis.pcall('INFO', 'server')
local run_id = type(server) == 'string' and string.match(server, 'run_id:(%w+)') or ''
return {{string.format('%.0f', now), lease, ids, unfinished, run_id}}
"""
_SETTLE = f"""
{_NOW}
for i = 2, #ARGV, 2 do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[1]) then
    redis.call('ZADD', KEYS[1], string.format('%.2f', now + ARGV[i + 1]), ARGV[i])
  end
end
"""
# KEYS: the set, and the hash of each request. ARGV: the lease, and the requests.
_REMOVE = f"""
{_NOW}
local OPEN = {{{",".join(f"{state}=true" for state in STORED if state not in FINAL)}}}
for i = 2, #ARGV do
  local score = redis.call('ZSCORE', KEYS[1], ARGV[i])
  if score and tonumber(score) == tonumber(ARGV[1]) then
    local status = redis.pcall('HGET', KEYS[i], 'status')
    if type(status) == 'string' and OPEN[status] then
      redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[i])
    else
      redis.call('ZREM', KEYS[1], ARGV[i])
    end
  end
end
"""
_HASTEN = f"""
{_NOW}
local hastened = 0
for i = 3, #ARGV do
  local score = tonumber(redis.call('ZSCORE', KEYS[1], ARGV[i]) or nil)
  local is_free = score and (score % 1 == 0 or (score % 1 ~= 0.5 and ARGV[2] == '1'))
  if is_free and score > now + ARGV[1] then
    redis.call('ZADD', KEYS[1], string.format('%.0f', now + ARGV[1]), ARGV[i])
    hastened = hastened + 1
  end
end
return hastened
"""
# A page's statuses without their results: with the worker of each ACCEPTED one.
_HOLDERS = f"""
local found = {{}}
for i, key in ipairs(KEYS) do
  local at = redis.pcall('HMGET', key, 'status', 'worker')
  if at[1] == '{State.ACCEPTED}' then
    found[#found + 1] = i
    found[#found + 1] = at[2] or ''
  end
end
return found
"""


@dataclass(frozen=True, slots=True)
class TakenRequests:
    """Due requests that are this resender's until the lease ends.

    Attributes:
        now_ms: Redis' clock, epoch ms.
        lease: names the lease to `settle`.
        unfinished: those of them that a resender took or put off before, and did not settle.
        strays: members of the set that are no request ids; they were removed.
        run_id: the start of the server that answered; empty where it is not known.
    """

    now_ms: int
    lease: str
    request_ids: tuple[str, ...]
    unfinished: frozenset[str]
    strays: int
    run_id: str = ""


@dataclass(frozen=True, slots=True)
class DuePage:
    """A part of the set, in no order.

    Attributes:
        cursor: for the next page; 0 after the last.
        looks: request id to its next check, in ms from now on Redis' clock.
    """

    cursor: int
    looks: dict[str, float]


class Deadlines:
    """The due set of one group. Safe to share between threads.

    Args:
        store: of the group; names the keys.
    """

    def __init__(self, store: StatusStore) -> None:
        self._store = store
        self._redis = store.redis
        self._key = store.deadlines_key
        self._take = self._redis.register_script(_TAKE)
        self._settle = self._redis.register_script(_SETTLE)
        self._remove = self._redis.register_script(_REMOVE)
        self._hasten = self._redis.register_script(_HASTEN)
        self._holders = self._redis.register_script(_HOLDERS)

    def take(self, limit: int, *, lease_s: float) -> TakenRequests:
        """Lease at most `limit` requests that are due, the longest overdue first.

        Args:
            lease_s: seconds after which they are due again unless they were settled.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            now, lease, members, unfinished, run_id = cast(
                "list[Any]", self._take(keys=[self._key], args=[limit, int(lease_s * 1000)])
            )
            request_ids, strays = _divide(members)
            if strays:
                self._redis.zrem(self._key, *strays)
        again = frozenset(_divide(unfinished)[0])
        return TakenRequests(
            int(now), lease.decode(), request_ids, again, len(strays), run_id.decode()
        )

    def settle(
        self, taken: TakenRequests, looks_s: Mapping[str, float], *, fixed: bool = False
    ) -> None:
        """Set the next checks of requests whose lease is still ours; leave the others alone.

        Args:
            looks_s: seconds from now.
            fixed: put off on purpose, with nothing done: not to be hastened, and unfinished for the
                next resender.

        Raises:
            RedisUnavailable: Redis did not answer; they are due again when the lease ends.
        """
        if not looks_s:
            return
        mark = 0.5 if fixed else 0.25
        pairs = [word for one, s in looks_s.items() for word in (one, f"{int(s * 1000) + mark}")]
        with guarded():
            self._settle(keys=[self._key], args=[taken.lease, *pairs])

    def remove(self, taken: TakenRequests, request_ids: Sequence[str]) -> None:
        """Remove finished requests from the set.

        A request that was reopened meanwhile stays, and is due: its writer found it in the set, and
        left it there. Redis checks and removes in one step. Between two steps the caller could die,
        and then nobody would send an open request without a check.

        Raises:
            RedisUnavailable: Redis did not answer; they are due again when the lease ends.
        """
        if not request_ids:
            return
        keys = [self._store.request_key(one) for one in request_ids]
        with guarded():
            self._remove(keys=[self._key, *keys], args=[taken.lease, *request_ids])

    def page(self, cursor: int, size: int) -> DuePage:
        """Return about `size` entries; the set is complete once the cursor is 0 again.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        with guarded():
            pipe = self._redis.pipeline(transaction=False)
            pipe.zscan(self._key, cursor, count=size)
            pipe.time()
            (following, entries), (seconds, micros) = pipe.execute()
        now_ms = seconds * 1000 + micros // 1000
        scores = dict(entries)
        request_ids, _ = _divide(list(scores))
        return DuePage(following, {one: scores[one.encode()] - now_ms for one in request_ids})

    def lost_among(self, request_ids: Sequence[str]) -> list[str]:
        """Return the requests whose worker has no heartbeat any more, or gave them up.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        if not request_ids:
            return []
        with guarded():
            keys = [self._store.request_key(one) for one in request_ids]
            found = cast("list[Any]", self._holders(keys=keys))
            held = {
                request_ids[at - 1]: worker.decode("utf-8", "replace")
                for at, worker in zip(found[::2], found[1::2], strict=True)
            }
            workers = sorted({worker for worker in held.values() if worker})
            pipe = self._redis.pipeline(transaction=False)
            for worker in workers:
                pipe.exists(self._store.worker_key(worker))
            alive = {one for one, is_there in zip(workers, pipe.execute(), strict=True) if is_there}
        return [request_id for request_id, worker in held.items() if worker not in alive]

    def hasten(
        self, request_ids: Sequence[str], *, look_s: float = 0.0, only_first: bool = False
    ) -> int:
        """Bring forward checks that are further away; return how many.

        Args:
            look_s: seconds from now.
            only_first: only those that clients and workers set by clocks of their own.

        Raises:
            RedisUnavailable: Redis did not answer.
        """
        if not request_ids:
            return 0
        with guarded():
            return cast(
                int,
                self._hasten(
                    keys=[self._key],
                    args=[int(look_s * 1000), "0" if only_first else "1", *request_ids],
                ),
            )


def _divide(members: Sequence[bytes]) -> tuple[tuple[str, ...], list[bytes]]:
    """Return the request ids among the members, and the other members."""
    request_ids: list[str] = []
    strays: list[bytes] = []
    for member in members:
        try:
            request_ids.append(check_request_id(member.decode("ascii")))
        except (UnicodeDecodeError, InvalidMessage):
            strays.append(member)
    return tuple(request_ids), strays
