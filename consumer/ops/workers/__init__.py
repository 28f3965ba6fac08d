"""`onceward-worker workers`: who lives, what each does now, and what the dead have left.

```
worker ── load ──▶ its heartbeat in Redis ──┐
onceward_worker: leases ────────────────────┼──▶ facts ── workers, pure ──▶ rows ──▶ page, JSON
claims of the dead, bounded ────────────────┘
```

`workers` has the load, the content of a heartbeat, written and read, and decides about one worker
at a time whether it lives. `workers_reading` asks journal and Redis, `page` is the table for
a person, and `command` prints it. `declared` is a handler's declaration in a line,
`ages` are ages for a person.

Not obvious: a clean stop takes the worker's lease along. So a lease that is over and no heartbeat
is a worker that was killed, or whose host is gone. One without a journal of the group has no lease
here, and is not listed.
"""
