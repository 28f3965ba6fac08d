"""Redis: statuses, stored payloads, deadlines, heartbeats, events (docs: Redis keys).

- `store` for threads and `async_store` for asyncio make the calls of `store_calls`;
  `request_coalescing` makes the calls of many tasks one, `split_batch` finds the write at fault.
- `sent_write` is a write whose answers are read later.
- `status_script` is the status rule as Lua, `script_call` makes the arguments of one call.
- `sent_marks` notes that Kafka has the records of requests that a Redis brought back.
- `events` and `async_events` wait for a change; `deadlines` is the set of open requests.
- `server`, `sockets` and `async_sockets` are the connection; `logins` reads its password again for
  each. `greeting` and `faults` name the fault for which it was not made, `rights` asks whether a
  user may send a command.
- `memory` says how far back Redis remembers.
"""
