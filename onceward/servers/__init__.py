"""Kafka and Redis, started on this machine: for `onceward dev`, and for tests, demo and benchmarks.

A server (`kafka`, `redis`) names its command and knows whether it answers. `launch` starts one and
waits for it, by a keeper (`keeper`), which ends all that it started no later than its parent.
Programs come from Debian's packages (`packages`), the broker's jars from Maven (`jars`, `attempts`;
`config/broker/pom.xml` names them), and both once: they stay in the user's `cache`.

    with Keeper() as keeper:
        running = launch(keeper, Redis)
        redis.Redis.from_url(running.address).ping()

Decisions, and their cost:

- One small process per stack owns the servers and their folder (`keeper_process`). It costs 15 MB
  and some 50 ms, and is the only way in which SIGKILL of its parent leaves nothing behind.
- A server is ready when a client gets an answer that proves its origin (its own folder or cluster
  id): an open port may be another stack's that won the race for it.
- Brokers take their classes from a file of 48 MB where tests have had one written: 2 s of the
  processor's time for a start instead of 6. It is the JVM's own (CDS); without it they start as
  before.
- `ports` finds free ports, `errors` are the faults of servers that we start.
- `polling` asks until an answer comes: nobody announces that a server is ready.
- Linux only: pidfd, death signals and subreaping have no portable counterpart.
"""
