"""Notes in Redis that Kafka has the records of requests that are PENDING.

A PENDING that names another start of the server may have been taken back since (see
`status_script`). Kafka's record of the same sending is the proof that it was not: then the status
names this start, and resends go their usual way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from feedback.errors import InvalidMessage
from feedback.records.envelope import Record, decode_headers, payload_sha256
from feedback.redis.server import guarded
from feedback.redis.store import StatusStore
from feedback.status import State

# KEYS: hashes. ARGV: of each one's record the attempt, deadline, topic, payload, and the generation
# that it reopens.
_MARK = f"""
local server = redis.pcall('INFO', 'server')
local start = type(server) == 'string' and string.match(server, 'run_id:(%w+)') or ''
local marked = {{}}
for i, key in ipairs(KEYS) do
  local at = 5 * i - 4
  local is_of = redis.pcall('HMGET', key, 'status', 'told_in', 'attempt', 'deadline_at', 'topic',
                            'payload_sha256', 'generation')
  local failed = not is_of.err and tonumber(is_of[7] or nil) or 0
  if start ~= '' and not is_of.err and is_of[1] == '{State.PENDING}'
      and is_of[2] and is_of[2] ~= '' and is_of[2] ~= start
      and is_of[3] == ARGV[at] and (is_of[4] or '') == ARGV[at + 1]
      and is_of[5] == ARGV[at + 2] and is_of[6] == ARGV[at + 3]
      and (failed == 0 or (tonumber(ARGV[at + 4]) or 0) >= failed) then
    redis.call('HSET', key, 'told_in', start)
    marked[#marked + 1] = i
  end
end
return marked
"""


class SentMarks:
    """Marks PENDING requests of an earlier start of Redis as sent. Safe to share.

    Args:
        store: of the group; names the keys.
    """

    def __init__(self, store: StatusStore) -> None:
        self._store = store
        self._mark = store.redis.register_script(_MARK)

    def mark(self, records: Iterable[Record]) -> list[str]:
        """Mark the requests whose PENDING belongs to one of these records; return them.

        Only the status of that very sending is marked: attempt, deadline, topic and payload are the
        record's. Of a request that had failed and was asked for again, a resend that only asks how
        it ended may have all these too, but not the failure that it reopens.

        Raises:
            RedisUnavailable: Redis did not answer; marking again is harmless.
        """
        request_ids: list[str] = []
        facts: list[str | int] = []
        for record in records:
            try:
                sent = decode_headers(record, group=self._store.group)
            except InvalidMessage:
                continue
            request_ids.append(sent.request_id)
            facts += (
                sent.attempt,
                "" if sent.deadline_at is None else sent.deadline_at,
                record.topic,
                payload_sha256(record.key, record.value),
                sent.reopens or 0,
            )
        if not request_ids:
            return []
        with guarded():
            keys = [self._store.request_key(one) for one in request_ids]
            marked = cast("list[int]", self._mark(keys=keys, args=facts))
        return [request_ids[at - 1] for at in marked]
