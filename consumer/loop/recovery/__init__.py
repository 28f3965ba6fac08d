"""Recovery: a thread goes on with the claims of dead workers, beside the loop.

- `sweeper`: the thread; it also writes statuses that Redis missed.
- `dead_ends` (pure) says how a dead claim ends. `look_back` and `far_leases`: which claims are
  looked at.
- `payload_lookup`, with `stored_record`, finds the payload.
"""
