"""Recovery: a thread goes on with the claims of dead workers, beside the loop.

- `sweeper`: the thread; it also writes statuses that Redis missed.
- `look_back` and `far_leases`: which claims it looks at.
"""
