"""What all databases of ours have in common, the journal's and the outbox's.

- `engine`: opens one, with what durability and time limits rest on. `session`: one held connection.
- `bounded_connection`: a wait for PostgreSQL that ends. `clock`: the database's own.
- `stuck_sessions`: locks of a process that stands still, given up.
- `faults`: what a driver raises, sorted by what the caller can do about it.

Not imported by what sends and tells: who needs no database loads no SQLAlchemy.
"""
