"""After the database or Redis has lost what it had: each is brought forward by the other.

- `restoring`: writes a worker's runs again that the database has lost.
- `told_rule`: the new state of a row that is behind the status in Redis, pure; `catching_up` writes
  it. `lost_rows`: its statements, and the reason that the history gives for a run that was
  overwritten so.
- `republish`: which statuses are written again to an empty Redis, and by which worker.
"""
