"""The status rule as the one Lua script that Redis runs, written from the table in `status.py`.

One call carries a batch: `KEYS` holds the request hash and the payload key of each write in turn,
`ARGV` a fixed head for each write followed by its fields. The rule is enforced inside Redis so that
two writers cannot interleave between reading and writing. Reply: for each write an empty string
when it was taken, 1 when it was taken and nobody had told the record's coordinates before, `=` and
what stood there when a PENDING took the place of an earlier attempt, `=` alone when that PENDING
was there already, else `refusal|state|attempt|generation|resend`.

Several sends may tell PENDING of one attempt at the same time, and each that fails takes back what
it told (`FORGET`). While they do, and until the next status, the hash has a field `tellings`: the
deadline that each of them told, by which it is known. Only the last one's failure puts back what
stood before them, or removes all; the first that fails leaves that to it in the field `replaced`.
A resend of which nobody knows what it replaced stays: it is the only trace of its request.

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
# What stands before what a PENDING took the place of.
REPLACED = "="
# A send that told no deadline takes nothing back, nor does one of so many at once.
STAYS = "*"
MOST_TELLINGS = 256
# What a PENDING of the next attempt changes.
PUT_BACK = (
    "status", "attempt", "updated_at", "deadline_at", "topic", "code", "message", "result",
    "resend", "by", "due_at", "tellings",
)  # fmt: skip
_PUT_BACK_NAMES = "{" + ",".join(f"'{name}'" for name in PUT_BACK) + "}"


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
local PUT_BACK = {_PUT_BACK_NAMES}

-- each value with its length before it, or `-` where there is none
local function packed(values)
  local parts = {{}}
  for i = 1, #PUT_BACK do
    local value = values[i]
    parts[i] = value and (#value .. ':' .. value) or '-'
  end
  return table.concat(parts)
end

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
                         'resend', 'worker', 'offset', 'tellings')
  local refusal = nil
  if old[1] then refusal = judge(old, write) end
  if refusal then
    replies[#replies + 1] = refusal .. '|' .. old[1] .. '|' .. (old[2] or '0') .. '|' ..
                            (old[3] or '0') .. '|' .. (old[5] or '')
  else
    local tellings, replaced = nil, ''
    if old[1] and old[4] == write.sha and write.state == '{State.PENDING}' then
      if write.attempt == tonumber(old[2]) then
        tellings = old[8] or redis.call('HGET', key, 'deadline_at') or '{STAYS}'
        replaced = '{REPLACED}'
      else
        replaced = '{REPLACED}' .. packed(redis.call('HMGET', key, unpack(PUT_BACK)))
      end
    end
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
    if tellings then
      tellings = tellings .. ' ' .. (redis.call('HGET', key, 'deadline_at') or '{STAYS}')
      if #tellings > {MOST_TELLINGS} then tellings = '{STAYS}' end
      redis.call('HSET', key, 'tellings', tellings)
    elseif old[8] then
      redis.call('HDEL', key, 'tellings', 'replaced')
    end
    if not (old[1] and SOON_AFTER[write.state]) then redis.call('PEXPIRE', key, ttl_ms) end
    if payload_action == '{PAYLOAD_SET}' then
      redis.call('SET', payload_key, payload, 'PX', ttl_ms)
    elseif payload_action == '{PAYLOAD_DROP}' then
      redis.call('DEL', payload_key)
    elseif not SOON_AFTER[write.state] then
      redis.call('PEXPIRE', payload_key, ttl_ms)
    end
    redis.call('PUBLISH', channel, write.state)
    replies[#replies + 1] = (old[7] or BEFORE_CLAIM[write.state]) and replaced or {UNPLACED}
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

# KEYS: hash, payload, the resender's set. ARGV: attempt, payload hash, deadline, request id, what
# it took the place of (empty for nothing), channel.
# Only what this very sending told, and nobody has taken up: another's trace is not ours to remove.
FORGET = f"""
local PUT_BACK = {_PUT_BACK_NAMES}
local found = redis.call('HMGET', KEYS[1], 'status', 'attempt', 'payload_sha256', 'deadline_at',
                         'generation', 'tellings', 'replaced')
if found[1] ~= '{State.PENDING}' or found[2] ~= ARGV[1] or found[3] ~= ARGV[2] then return 0 end
local is_mine, others = false, {{}}
for told in string.gmatch(found[6] or found[4] or '', '%S+') do
  if told == ARGV[3] and not is_mine then is_mine = true else others[#others + 1] = told end
end
if not is_mine then return 0 end
local replaced = found[7] or ARGV[5]
if #others > 0 then
  redis.call('HSET', KEYS[1], 'tellings', table.concat(others, ' '))
  if replaced ~= '' then redis.call('HSET', KEYS[1], 'replaced', replaced) end
  local deadline_at = others[#others]
  if deadline_at ~= '{STAYS}' then redis.call('HSET', KEYS[1], 'deadline_at', deadline_at) end
  return 0
end
if replaced ~= '' then
  local values, gone, at = {{}}, {{'replaced'}}, 1
  for i, name in ipairs(PUT_BACK) do
    if string.sub(replaced, at, at) == '-' then
      gone[#gone + 1] = name
      at = at + 1
    else
      local colon = string.find(replaced, ':', at, true)
      local last = colon + tonumber(string.sub(replaced, at, colon - 1))
      values[#values + 1] = name
      values[#values + 1] = string.sub(replaced, colon + 1, last)
      at = last + 1
    end
  end
  redis.call('HSET', KEYS[1], unpack(values))
  redis.call('HDEL', KEYS[1], unpack(gone))
  redis.call('PUBLISH', ARGV[6], values[2])
  return 1
end
-- a resend, or opened again: what was sent or told before is not ours to remove
if ARGV[1] ~= '1' or found[5] then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[4])
return 1
"""
