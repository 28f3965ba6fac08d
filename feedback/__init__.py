"""The ground floor: code that several rooms share, and none that only one room needs.

A client and a worker describe a request by its envelope (`records/`). They write its status to
Redis (`redis/`) by the rule in `status`, and wait for changes by events.

- `status`: the rule which status may follow which, pure. `statuses`: a status as it is written and
  read.
- `errors`: the base error, exit codes. `clock`: the two clocks by name.
  `doubling`: pauses between tries.
- `records/`: headers in both directions, ids, schemas, the payload stored for a resend.
- `redis/`: statuses, deadlines, heartbeats, events. `kafka/`: the only folder that imports a Kafka
  library, beside the clients that send. `sql/`: engine, session, clock and faults of a database.
- `rights/`: what the user of each role needs on the three servers, and which of it is missing.
- `settings/`: TOML and environment, every fault reported at once.
- `logs`: events with fields. `console/`: options and exit codes of all commands. `web/`: pages and
  webhooks. `systemd`: notifications to the service manager.
- `security`: the faults of security and their corrections, pure. `tls_files` and `tls_probe` find
  the fault where a library names none. `outages` logs faults and the time without a server.
- `observer`: hears what the parts of a process do, for metrics.
- `files`: files for their owner alone. `names`: host names resolved in bounded time. `tasks`:
  asyncio tasks ended for certain. `foreign`: safe reading of objects that the user's code made.
  `lazy`: names imported when first asked for. `wakeups`: threads that wait for a change.

Decisions taken, and their cost. One script call carries a batch: one round trip and little packing,
but on a Redis Cluster a batch must be cut by slot. A RUNNING is written together with the next
status when both are ready, so a fast request shows no RUNNING. Times in Redis come from the
writer's clock and are for display; every decision by time uses the database's clock.
"""

__version__ = "0.1.0"

# The prefix of a room's name: `onceward.` in an installed Onceward, nothing in a checkout.
ABOVE = __name__.removesuffix("feedback")
