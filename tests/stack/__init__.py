"""The local stack: real Kafka, Redis and PostgreSQL for tests, demo and benchmarks.

`Stack.start()` asks the environment which servers are given (`servers`), installs what is missing
for the others (`packages`, `jars`, `classes`, `cache`), opens a keeper (`keeper`) and launches
them side by side (`launch`; `kafka`, `redis`, `postgres` on `ports` of their own).
`python -m tests.stack` is the same for the shell (`__main__`, `foreground`).

    with Stack.start(kafka=False) as servers:
        redis.Redis.from_url(servers.redis).ping()

Servers that fail belong to one test: `restartable(Redis)` is stopped, killed, paused and started
again on its ports and data, `cluster()` is three brokers of which one may die, `Links` puts
Toxiproxy before a server, `replicated()` is PostgreSQL with a standby that lags and is promoted,
`PgBouncer` shares its connections, `LosingLink` loses a reply, `clock_off_by` sets a clock wrong.
`s3_server` keeps objects in buckets.

Decisions, and what they cost:

- One small process per stack owns the servers and their folder (`keeper_process`). It costs 15 MB
  and some 50 ms, and is the only way in which SIGKILL of a test run leaves nothing behind.
- A server is ready when a client gets an answer that proves who answers (its own folder or cluster
  id): an open port may be another stack's that won the race for it.
- Toxiproxy is built by Go, once (25 s): resets and half-open links are its business. Which reply is
  lost depends on the request, so that link is our own.
- PostgreSQL keeps its default durability and the stack's JVM its full JIT: benchmarks run here
  too. A broker of one test's own compiles less: it is started more often than it is busy.
- Brokers take their classes from a file that the first one wrote (48 MB): 2 s of the processor's
  time for a start instead of 6. It is the JVM's own (CDS); without it they start as before.
- Linux only: pidfd, death signals and subreaping have no portable counterpart.
"""

from tests.stack.errors import StackError
from tests.stack.servers import Servers
from tests.stack.stack import Stack

__all__ = ["Servers", "Stack", "StackError"]
