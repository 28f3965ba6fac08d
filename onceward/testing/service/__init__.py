"""A whole service in one process: its clients, Kafka, Redis, a journal, and a worker.

`memory_service` is the face; `leading` makes settings and an environment that lead here. Kafka is
the broker in memory (`feedback.kafka.memory`). `redis_server` is fakeredis behind a port of this
host, so that connections, events and outages are those of the product. `running_worker` is the
worker itself, every feature of it, in a thread: its pool has real child processes, whose handlers
tell their points (`child`) to the desk of a bench on real servers (`onceward.testing.real.desk`),
where they may die.

Not obvious: addresses are put into the environment as well, for clients that the user's own code
makes. The broker lives in this process alone, and so do all clients.
"""
