"""The ground floor: what every room agrees on, and nothing that a single room needs.

A client and a worker describe a request by its envelope (`records/`), tell its state through the
store (`redis/`) by the rule of `status`, and wait for changes through events.

- `status`: the rule which write may follow which, pure. `statuses`: a status as it is written and
  read.
- `errors`: one base error, exit codes. `clock`: the two clocks by name.
- `records/`: headers in both directions, ids, schemas, the payload that is kept for a resend.
- `redis/`: statuses, deadlines, heartbeats, events. `kafka/`: the only folder that knows a Kafka
  library, beside the clients that send. `sql/`: what all databases of ours have in common.
- `settings/`: TOML and environment, every fault reported at once.
- `logs`: events with fields. `console/`: what all commands share. `web/`: pages and webhooks.
  `systemd`: what a service tells its manager.
- `names`: hosts found in bounded time. `tasks`: ending tasks of asyncio for certain. `foreign`:
  objects of the user's code, whatever they do when they are asked.

Decisions taken, and their cost. One script call carries a batch: one round trip and little packing,
but on a Redis Cluster a batch must be cut by slot. A RUNNING is told together with what follows
when both are ready, so a fast request shows no RUNNING. Times in Redis come from the writer's
clock: they are for display; whatever is decided by time is decided by the database's clock.
"""

__version__ = "0.1.0"
