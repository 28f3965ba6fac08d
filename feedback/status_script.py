"""The status rule as the one Lua script that Redis runs, written from the table in `status.py`.

One call carries a batch: `KEYS` holds the request hash and the payload key of each write in turn,
`ARGV` a fixed head for each write followed by its fields. The rule is enforced inside Redis so that
two writers cannot interleave between reading and writing. Reply: for each write an empty string
when it was taken, 1 when it was taken and nobody had told the record's coordinates before, else
`refusal|state|attempt|generation|resend`.

A full server refuses what could grow and lets deletions through, from the first command of a script
to its last: so whatever deletes here has written something before.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from feedback.status import BEFORE_CLAIM, FINAL, FOLLOWERS, NEWER_GENERATION, Refusal, State

UNPLACED = 1
HEAD_LENGTH = 11
# States that may carry a code, a result or a due time; so does an ACCEPTED whose worker gave up.
OUTSPOKEN = FINAL | {State.RETRYING}
# Seconds after the PENDING that set the lifetimes.
SOON_AFTER = frozenset({State.ACCEPTED})
PAYLOAD_KEEP, PAYLOAD_DROP, PAYLOAD_SET = "keep", "drop", "set"


def _set(states: Iterable[State]) -> str:
    return "{" + ",".join(f"{state}=true" for state in sorted(states)) + "}"


def _table(rule: Mapping[State, Iterable[State]]) -> str:
    return "{" + ",".join(f"{state}={_set(after)}" for state, after in rule.items()) + "}"


SCRIPT = f"""
local FINAL = {_set(FINAL)}
local BEFORE_CLAIM = {_set(BEFORE_CLAIM)}
local FOLLOWERS = {_table(FOLLOWERS)}
local SOON_AFTER = {_set(SOON_AFTER)}
local OUTSPOKEN = {_set(OUTSPOKEN)}
local NEWER_GENERATION = {_table(NEWER_GENERATION)}

local function judge(old, write)
  local state, attempt, generation = old[1], tonumber(old[2]) or 0, tonumber(old[3]) or 0
  if write.held_by ~= '*' and write.held_by ~= (old[6] or '') then return '{Refusal.WORKER}' end
  if write.sha ~= old[4] then
    if write.restore == '1' then return nil end
    return '{Refusal.PAYLOAD}'
  end
  if BEFORE_CLAIM[write.state] then
    if write.attempt < attempt then return '{Refusal.ATTEMPT}' end
    if state == '{State.FAILED}' and old[5] == '1' and write.attempt > attempt then return nil end
    if not BEFORE_CLAIM[state] then return '{Refusal.GENERATION}' end
    if write.attempt > attempt or FOLLOWERS[state][write.state] then return nil end
    return '{Refusal.STATE}'
  end
  if write.generation < generation then return '{Refusal.GENERATION}' end
  if write.generation > generation then
    if not (NEWER_GENERATION[state] or {{}})[write.state] then return '{Refusal.STATE}' end
    if write.attempt < attempt and not FINAL[write.state] then return '{Refusal.ATTEMPT}' end
    return nil
  end
  local outcome = FINAL[write.state] and not BEFORE_CLAIM[state]
  if write.attempt < attempt and not outcome then return '{Refusal.ATTEMPT}' end
  if FOLLOWERS[state][write.state] then return nil end
  return '{Refusal.STATE}'
end

local replies, at = {{}}, 1
for i = 1, #KEYS, 2 do
  local key, payload_key = KEYS[i], KEYS[i + 1]
  local write = {{
    state = ARGV[at], attempt = tonumber(ARGV[at + 1]), generation = tonumber(ARGV[at + 2]),
    sha = ARGV[at + 3], restore = ARGV[at + 4], held_by = ARGV[at + 5]}}
  local ttl_ms, channel = ARGV[at + 6], ARGV[at + 7]
  local payload_action, payload, fields = ARGV[at + 8], ARGV[at + 9], tonumber(ARGV[at + 10])
  at = at + {HEAD_LENGTH}
  local old = redis.call('HMGET', key, 'status', 'attempt', 'generation', 'payload_sha256',
                         'resend', 'worker', 'offset')
  local refusal = nil
  if old[1] then refusal = judge(old, write) end
  if refusal then
    replies[#replies + 1] = refusal .. '|' .. old[1] .. '|' .. (old[2] or '0') .. '|' ..
                            (old[3] or '0') .. '|' .. (old[5] or '')
  else
    if old[1] and old[4] ~= write.sha then
      -- restored: nothing of the other payload stays, least of all what a resend would send
      redis.call('HSET', key, 'status', write.state)
      redis.call('DEL', key, payload_key)
      old[1] = nil
    elseif OUTSPOKEN[old[1]] or old[6] == '' then
      -- what the last status said of its run does not outlive it
      redis.call('HSET', key, 'status', write.state)
      redis.call('HDEL', key, 'code', 'message', 'result', 'resend', 'by', 'due_at')
    end
    redis.call('HSET', key, unpack(ARGV, at, at + fields - 1))
    if not (old[1] and SOON_AFTER[write.state]) then redis.call('PEXPIRE', key, ttl_ms) end
    if payload_action == '{PAYLOAD_SET}' then
      redis.call('SET', payload_key, payload, 'PX', ttl_ms)
    elseif payload_action == '{PAYLOAD_DROP}' then
      redis.call('DEL', payload_key)
    elseif not SOON_AFTER[write.state] then
      redis.call('PEXPIRE', payload_key, ttl_ms)
    end
    redis.call('PUBLISH', channel, write.state)
    replies[#replies + 1] = (old[7] or BEFORE_CLAIM[write.state]) and '' or {UNPLACED}
  end
  at = at + fields
end
return replies
"""

# KEYS: hashes. ARGV: four names and values for each, written only where nobody has.
PLACE = """
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    for at = 8 * i - 7, 8 * i, 2 do redis.call('HSETNX', key, ARGV[at], ARGV[at + 1]) end
  end
end
"""

# KEYS: hash, payload, the resender's set. ARGV: attempt, payload hash, deadline, request id.
# Only what this very sending wrote, and nobody has taken up: another's trace is not ours to remove.
FORGET = f"""
local found = redis.call('HMGET', KEYS[1], 'status', 'attempt', 'payload_sha256', 'deadline_at',
                         'generation')
local mine = found[1] == '{State.PENDING}' and found[2] == ARGV[1] and found[3] == ARGV[2]
             and found[4] == ARGV[3] and not found[5]
if not mine then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[4])
return 1
"""
