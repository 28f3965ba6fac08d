"""The local stack: real Kafka, Redis and PostgreSQL for tests, demo and benchmarks.

`Stack.start()` asks the environment which servers are given (`servers`), installs what is missing
for the others (`installing`), opens a keeper and launches them side by side. Kafka, Redis and all
that starts a server are the product's (`onceward.servers`); `postgres` is only ours.
`python -m tests.stack` is the same for the shell (`__main__`, `foreground`).

    with Stack.start(kafka=False) as servers:
        redis.Redis.from_url(servers.redis).ping()

Servers that fail belong to one test: `restartable(Redis)` is stopped, killed, paused and started
again on its ports and data, `cluster()` is three brokers of which one may die, `Links` puts
Toxiproxy before a server, `replicated()` is PostgreSQL with a standby that lags and is promoted,
`PgBouncer` shares its connections, `LosingLink` loses a reply, `clock_off_by` sets a clock wrong.
`s3_server` keeps objects in buckets, `prometheus` scrapes what it is told. `secured_stack` is all
three servers with TLS, passwords and a user for each role (fixture `secured`, one for each process
of tests); `secured`, `secured_redis` and `secured_postgres` are its parts, and `Authority` signs
their certificates.

Decisions, and what they cost:

- Toxiproxy is built by Go, once (25 s): resets and half-open links are its business. Which reply is
  lost depends on the request, so that link is our own.
- PostgreSQL keeps its default durability, and the broker of `python -m tests.stack` its full JIT:
  benchmarks run here too. A broker of tests compiles less (`--lean`): it is started more often
  than it is busy. Their PostgreSQL vacuums nothing by itself: plans stay as they were. Their
  temporary files, and those of the command, lie in memory where there is enough of it (`memory`).
"""

from onceward.servers.errors import StackError
from tests.stack.servers import Servers
from tests.stack.stack import Stack

__all__ = ["Servers", "Stack", "StackError"]
