"""The ground floor: what every room agrees on, and nothing that a single room needs.

What flows through: a client and a worker describe a request by its `envelope`, tell its state
through the `store` (Redis) by the `status` rule, and wait for changes through `events`.

- `errors`: one base error, exit codes. `clock`: the two clocks by name. `logs`: events with fields.
- `settings`: TOML and environment, every fault reported at once; `sections`: what may be set.
- `envelope`: headers in both directions, request ids, the payload's hash.
- `status`: the rule which write may follow which, pure. `status_script`: the same rule for Redis,
  `script_call`: what a call of it carries.
- `statuses`: a status as it is written and read. `kept`: the payload a resend needs.
- `store`: statuses, kept payloads, deadlines, heartbeats and the journal's id in Redis;
  `redis_server`, `redis_sockets`: the connection to it; `names`: hosts found in bounded time.
- `apart`: telling a batch of which one may be at fault.
  `store_calls`: what it asks and what that means, for threads and for asyncio.
- For asyncio: `async_store`, `async_events`; `grouped`: calls of many tasks made as one; `tasks`.
- `deadlines`: the set of open requests by next look, leased to resenders.
- `kafka_reader`: one record read again by its coordinates; `kafka_records`: kafka-python's records
  as ours; `kafka_writer`: records that a worker writes itself, `kafka_topics`: topics that it makes
  for them; `kafka_sockets`, `kafka_logs`, `kafka_failures`: mends of kafka-python.
- `systemd`: what a service tells its manager.
- `events`: waiting for a change by event, with polling as the fallback.
- `sql/`: what all databases of ours have in common. `page_server`: pages over HTTP.
- `webhook`: JSON posted to a chat, over HTTP; `slack`: what text means there.
- `commands`: what the console commands of all rooms share (exit codes, `--config`).

Decisions taken, and their cost. One script call carries a batch: one round trip and little packing,
but on a Redis Cluster a batch must be cut by slot. A RUNNING is told together with what follows
when both are ready, so a fast request shows no RUNNING. Times in Redis come from the writer's
clock: they are for display; whatever is decided by time is decided by the database's clock.
"""

__version__ = "0.1.0"
