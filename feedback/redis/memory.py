"""How far back Redis remembers the requests of a group.

A client asks when it finds nothing under an id.

A key beside the journal's id is the witness. It names the Redis that the workers have seen, and the
time since which that has forgotten nothing (`KEEP`, with each heartbeat). A Redis is named by its
`run_id` and by how many keys it has evicted: after another start, and as a promoted replica, it may
be empty or have older data. When the name changes, or the witness is gone, the time begins anew, by
Redis' clock. Only the first worker that a group ever has writes it for the group's whole life (0):
before it nothing ran.

A client reads the witness when it is about to raise `NotSent` for an id that its caller gave
(`LOOK`). A request that was forgotten longer ago than any deadline can run no more, and its end was
written again from the journal. Without a witness the group has no worker yet, or Redis was emptied
and no worker has written a heartbeat since. Nothing in Redis tells these two apart, and a user who
begins with an empty Redis must not get `SendUnknown` for everything. So a missing witness is no
reason for doubt, unless the process knows better (`producer_client.sending.sent_before`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

# The clocks of clients and of the database may differ by this: clients set deadlines, the database
# judges them.
MARGIN_S = 60.0

_NOW = """
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000 + math.floor(time[2] / 1000))
"""
# A foreign server may forbid INFO: then neither is known, in clients and workers alike.
_NAME = """
local function said(section, pattern)
  local text = redis.pcall('INFO', section)
  return type(text) == 'string' and string.match(text, pattern) or ''
end
local name = said('server', 'run_id:(%w+)') .. '.' .. said('stats', 'evicted_keys:(%d+)')
"""

# KEYS: the journal's id, the word that goes with it, the witness. ARGV: the id, a new word, and "1"
# from the first worker of the group's life. Returns the current word.
KEEP = f"""{_NOW}{_NAME}
local word = redis.call('EXISTS', KEYS[1]) == 1 and redis.call('GET', KEYS[2])
local witness = redis.call('GET', KEYS[3])
if not word or not witness or string.match(witness, '^%S*') ~= name then
  local since = not word and ARGV[3] == '1' and '0' or now
  if not word then
    redis.call('SET', KEYS[1], ARGV[1], 'NX')
    redis.call('SET', KEYS[2], ARGV[2])
  end
  redis.call('SET', KEYS[3], name .. ' ' .. since)
end
return word or ARGV[2]
"""

# KEYS: the witness, and the hash of a request that must be there, if there is one.
LOOK = f"""{_NOW}{_NAME}
local is_there = not KEYS[2] or redis.call('EXISTS', KEYS[2]) == 1
return {{redis.call('GET', KEYS[1]) or '', name, now, is_there and 1 or 0}}
"""


@dataclass(frozen=True, slots=True)
class RedisMemory:
    """The facts about Redis' memory.

    Attributes:
        witness: the Redis that the workers have seen, empty without a witness.
        since_ms: the time since which that has forgotten nothing, epoch ms; 0: the group's whole
            life.
        name: the Redis that answered.
        now_ms: the time of its clock.
        is_known_there: the request in the question is still known.
    """

    witness: str
    since_ms: int
    name: str
    now_ms: int
    is_known_there: bool = True

    @property
    def is_witnessed(self) -> bool:
        """Whether a worker of the group has left its witness."""
        return bool(self.witness)

    def doubt(self, *, longest_s: float) -> str | None:
        """Return why Redis may have forgotten a request that can still run; None where it has not.

        Args:
            longest_s: the longest time from a send to its deadline.
        """
        if not self.is_known_there:
            return "Redis has forgotten what this process has sent"
        if not self.is_witnessed:
            return None
        if self.name != self.witness:
            return "Redis was started again, replaced, or has evicted keys"
        past_s = (self.now_ms - self.since_ms) / 1000
        if past_s < longest_s + MARGIN_S:
            return f"Redis remembers no further back than {past_s:.0f} s"
        return None


def decode_look(answer: Any) -> RedisMemory:
    """Return the answer of `LOOK`."""
    witness, name, now, is_there = cast("Sequence[Any]", answer)
    seen, _, since = witness.decode().partition(" ")
    return RedisMemory(seen, int(since or 0), name.decode(), int(now), is_there == 1)
