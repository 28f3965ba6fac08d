"""The status rule as the one Lua script that Redis runs, generated from the table in `status.py`.

One call carries a batch: `KEYS` holds the request hash and the payload key of each write in turn,
and last the resender's set. `ARGV` holds the next check of requests that enter that set (empty:
none does), then for each write a fixed head followed by its fields. The rule is enforced inside
Redis so that two writers cannot interleave between reading and writing. The set changes in the same
step: nobody would send an open status without a check. The reply has one item for each write. It is
an empty string for an accepted write, and 1 for one where nobody had written the record's
coordinates before. It is `=` and the old status when a PENDING replaced an earlier attempt, and `=`
alone when that PENDING was there already. Otherwise it is
`refusal|state|attempt|generation|resend`; the state of nothing is UNKNOWN. The refusal `WRONGTYPE`
is Redis' own, of a key that holds another type of value: nothing was written there.

Several sends may write PENDING for one attempt at the same time, and each that fails takes back its
own (`FORGET`). While they do, and until the next status, the hash has a field `tellings`: the
deadlines that they wrote, by which each knows its own. Only the last one's failure restores the
status before them, or removes all; the first that fails leaves that status to it in the field
`replaced`. A resend stays where the status that it replaced is unknown: it is the only trace of its
request. The PENDING of a resender, and of a wait that only knows an id, names the attempt that it
follows. Its writer may have read that, slept, and woken when that was taken back and its client had
got `NotSent`. Then it is refused, and nothing is sent. A writer that has found no status, but a
payload (a Redis may evict single keys), follows nothing: it is refused where a status stands by
then, or the payload has gone as well.

Workers go on meanwhile, and until there is an outcome, what they say of an earlier attempt is
refused. One refused word leaves a mark: where the worker in `worker` gives the request up, that
field gets a suffix, and a status that is put back reads as LOST (`holder_after_refusal`).

PENDING also names the start of the server at which it was written (`told_in`, its `run_id`). After
another start Redis may have older data, by a promoted replica or a snapshot: a status there may
have been taken back since, and its client may have got `NotSent` (`may_be_taken_back`). A PENDING
that names the attempt it follows is refused there, too.

`updated_at` is the time of the server's clock: with the writers' own clocks it could go back.

A full server refuses commands that could grow and accepts deletions, from a script's first command
to its last. So each deletion here follows a write.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from feedback.status import (
    BEFORE_CLAIM,
    CLOCKS_APART_S,
    DISOWNED,
    FINAL,
    FOLLOWERS,
    NEWER_GENERATION,
    RefusalReason,
    State,
)
from feedback.statuses import REPLACED, WRONG_TYPE

UNPLACED = 1
HEAD_LENGTH = 15
# States that may have a code, a result or a due time; so may an ACCEPTED whose worker gave up.
OUTSPOKEN = FINAL | {State.RETRYING}
# Seconds after the PENDING that set the lifetimes.
SOON_AFTER = frozenset({State.ACCEPTED})
PAYLOAD_KEEP, PAYLOAD_DROP, PAYLOAD_SET = "keep", "drop", "set"
# A send that wrote no deadline takes nothing back, nor does one of so many at once.
STAYS = "*"
MOST_TELLINGS = 256
# The fields that a PENDING of the next attempt changes.
PUT_BACK = (
    "status", "attempt", "updated_at", "deadline_at", "topic", "code", "message", "result",
    "resend", "by", "due_at", "tellings", "told_in",
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

-- another payload under this id, or another topic
local function is_other(old, write)
  local elsewhere = write.topic ~= '' and (old[9] or '') ~= '' and write.topic ~= old[9]
  return write.sha ~= old[4] or elsewhere
end

local function judge(old, write)
  local state, attempt, generation = old[1], tonumber(old[2]) or 0, tonumber(old[3]) or 0
  if write.held_by ~= '*' and write.held_by ~= (old[6] or '') then
    return '{RefusalReason.WORKER}'
  end
  if is_other(old, write) then
    if write.restore == '1' then return nil end
    return '{RefusalReason.PAYLOAD}'
  end
  if BEFORE_CLAIM[write.state] then
    if write.attempt < attempt then return '{RefusalReason.ATTEMPT}' end
    if write.follows and (write.follows == 0 or attempt < write.follows) then
      return '{RefusalReason.TAKEN_BACK}'
    end
    if write.reopens and write.reopens < generation then return '{RefusalReason.GENERATION}' end
    if state == '{State.FAILED}' and old[5] == '1' and write.attempt > attempt then return nil end
    if not BEFORE_CLAIM[state] then return '{RefusalReason.GENERATION}' end
    if write.attempt > attempt or FOLLOWERS[state][write.state] then return nil end
    return '{RefusalReason.STATE}'
  end
  if write.generation < generation then return '{RefusalReason.GENERATION}' end
  if write.generation > generation then
    if not (NEWER_GENERATION[state] or {{}})[write.state] then return '{RefusalReason.STATE}' end
    if write.attempt < attempt and not FINAL[write.state] then return '{RefusalReason.ATTEMPT}' end
    return nil
  end
  local outcome = FINAL[write.state] and not BEFORE_CLAIM[state]
  if write.attempt < attempt and not outcome then return '{RefusalReason.ATTEMPT}' end
  if (FOLLOWERS[state] or {{}})[write.state] then return nil end
  return '{RefusalReason.STATE}'
end

-- its holder gives up the attempt before a resend, whose PENDING may be taken back
local function is_given_up(old, write)
  if old[1] ~= '{State.PENDING}' or write.state ~= '{State.ACCEPTED}' then return false end
  if write.held_by == '*' or write.held_by == '' then return false end
  return (write.reopens or 0) >= (tonumber(old[3]) or 0)
end

local time = redis.call('TIME')
local now = time[1] .. string.format('%03d', math.floor(time[2] / 1000))

-- a key of another type is the fault of this write alone
local function stored(key)
  local read = {{'HMGET', key, 'status', 'attempt', 'generation', 'payload_sha256',
                'resend', 'worker', 'offset', 'tellings', 'topic'}}
  local found = redis.pcall(unpack(read))
  if found.err and not string.find(found.err, '{WRONG_TYPE}', 1, true) then
    redis.call(unpack(read))
  end
  return found
end

local run_id = nil
local function this_start()
  if not run_id then
    -- a server of others may forbid it
    local server = redis.pcall('INFO', 'server')
    run_id = type(server) == 'string' and string.match(server, 'run_id:(%w+)') or ''
  end
  return run_id
end

-- told by another start of the server, and perhaps taken back since
local function is_from_before(key, old)
  local is_first = (tonumber(old[2]) or 0) <= 1 or (tonumber(old[3]) or 0) > 0
  if old[1] ~= '{State.PENDING}' or not is_first then return false end
  local told = redis.call('HMGET', key, 'told_in', 'deadline_at')
  local start, told_in, deadline_at = this_start(), told[1] or '', tonumber(told[2] or nil)
  -- empty where the server did not say
  if start == '' or told_in == '' or told_in == start then return false end
  return not deadline_at or tonumber(now) < deadline_at + {CLOCKS_APART_S * 1000}
end

local looks, look_at = KEYS[#KEYS], ARGV[1]
local function look_at_open(state, request_id)
  if look_at ~= '' and not FINAL[state] then
    redis.call('ZADD', looks, 'NX', look_at, request_id)
  end
end

local replies, at = {{}}, 2
for i = 1, #KEYS - 1, 2 do
  local key, payload_key = KEYS[i], KEYS[i + 1]
  local write = {{
    state = ARGV[at], attempt = tonumber(ARGV[at + 1]), generation = tonumber(ARGV[at + 2]),
    sha = ARGV[at + 3], restore = ARGV[at + 4], held_by = ARGV[at + 5],
    reopens = tonumber(ARGV[at + 6]), topic = ARGV[at + 7], follows = tonumber(ARGV[at + 8])}}
  local ttl_ms, channel = ARGV[at + 9], ARGV[at + 10]
  local payload_action, payload, fields = ARGV[at + 11], ARGV[at + 12], tonumber(ARGV[at + 13])
  local request_id = ARGV[at + 14]
  at = at + {HEAD_LENGTH}
  local old = stored(key)
  local refusal = nil
  if old.err then refusal = '{WRONG_TYPE}'
  elseif old[1] then refusal = judge(old, write)
  elseif write.follows and (write.follows > 0 or redis.call('EXISTS', payload_key) == 0) then
    refusal = '{RefusalReason.TAKEN_BACK}'
  end
  if old[1] and not refusal and write.follows and is_from_before(key, old) then
    refusal = '{RefusalReason.TAKEN_BACK}'
  end
  if refusal then
    -- an open one that stands is looked at, whoever told it
    if old[1] and not FINAL[write.state] then look_at_open(old[1], request_id) end
    if refusal == '{RefusalReason.ATTEMPT}' and is_given_up(old, write) then
      redis.call('HSET', key, 'worker', write.held_by .. '{DISOWNED}')
    end
    replies[#replies + 1] = table.concat(
      {{refusal, old[1] or '{State.UNKNOWN}', old[2] or '0', old[3] or '0', old[5] or ''}}, '|')
  else
    look_at_open(write.state, request_id)
    local tellings, replaced = nil, ''
    if old[1] and not is_other(old, write) and write.state == '{State.PENDING}' then
      if write.attempt == tonumber(old[2]) then
        tellings = old[8] or redis.call('HGET', key, 'deadline_at') or '{STAYS}'
        replaced = '{REPLACED}'
      else
        replaced = '{REPLACED}' .. packed(redis.call('HMGET', key, unpack(PUT_BACK)))
      end
    end
    if old[1] and is_other(old, write) then
      -- restored: nothing of the other request stays, least of all what a resend would send
      redis.call('HSET', key, 'status', write.state)
      redis.call('DEL', key, payload_key)
      old[1] = nil
    elseif OUTSPOKEN[old[1]] or old[6] == '' then
      -- what the last status said of its run does not outlive it
      redis.call('HSET', key, 'status', write.state)
      redis.call('HDEL', key, 'code', 'message', 'result', 'resend', 'by', 'due_at')
    end
    redis.call('HSET', key, 'updated_at', now, unpack(ARGV, at, at + fields - 1))
    if write.state == '{State.PENDING}' then
      redis.call('HSET', key, 'told_in', this_start())
    elseif old[1] == '{State.PENDING}' then
      redis.call('HDEL', key, 'told_in')
    end
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
    if FINAL[write.state] then redis.call('ZREM', looks, request_id) end
    redis.call('PUBLISH', channel, write.state)
    replies[#replies + 1] = (old[7] or BEFORE_CLAIM[write.state]) and replaced or {UNPLACED}
  end
  at = at + fields
end
return replies
"""

# KEYS: hashes. ARGV: four names and values for each, written only if they are not there yet.
PLACE = """
for i, key in ipairs(KEYS) do
  if redis.call('EXISTS', key) == 1 then
    for at = 8 * i - 7, 8 * i, 2 do redis.call('HSETNX', key, ARGV[at], ARGV[at + 1]) end
  end
end
"""

# KEYS: hash, payload, the resender's set. ARGV: attempt, payload hash, deadline, request id, the
# status it replaced (empty for none), channel. Only the status of this very sending is removed, and
# only if nobody has taken it up.
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
  -- leased: a resender may be sending it by now, and a failure that is told is over
  local lease = tonumber(redis.call('ZSCORE', KEYS[3], ARGV[4]) or '0') % 1
  if values[2] == '{State.FAILED}' and lease == 0.5 then return 0 end
  redis.call('HSET', KEYS[1], unpack(values))
  redis.call('HDEL', KEYS[1], unpack(gone))
  redis.call('PUBLISH', ARGV[6], values[2])
  return 1
end
-- a resend, or opened again: what was sent or told before is not ours to remove
if ARGV[1] ~= '1' or found[5] then return 0 end
-- leased: a resender may be sending it by now
if tonumber(redis.call('ZSCORE', KEYS[3], ARGV[4]) or '0') % 1 == 0.5 then return 0 end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('ZREM', KEYS[3], ARGV[4])
return 1
"""
