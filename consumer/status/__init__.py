"""Clients are told, and others see that the worker lives.

- `status_messages` makes statuses of deliveries, outcomes and rows; they wait in `status_backlog`
  until `status_writer`, a thread, has written them to Redis.
- `status_restore` writes statuses again after a restarted Redis forgot them.
- `liveness` keeps the lease in SQL and the `heartbeat` in Redis; `availability` logs who is away.
"""
