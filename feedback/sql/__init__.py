"""SQL: shared by all databases of ours, the journal's, the registry's and the outbox's.

- `engine`: opens a database, with the settings for durability and time limits. `session`: one
  connection that is kept open. `read_only`: opens a database without writing to it.
- `keeping`: connections that the sessions of a process take from each other.
- `moved_name`: whether the name of a database leads elsewhere since a connection was made.
- `bounded_connection`: a wait for PostgreSQL that ends. `clock`: the database's own.
- `stuck_sessions`: ends sessions, and so the locks, of a process that stands still.
- `faults`: a driver's errors, sorted by the caller's remedy; `errors`: those that we raise instead.
- `connecting`: connects to PostgreSQL, and names the fault of security by `refusals`. `rights`: the
  privileges of a user there.
- `inserting`: inserts for rows that may exist. `index_hints`: the index of a query, on SQLite.
- `versions`: the version of the tables, and one migration at a time.

Senders and status writers do not import it: a process without a database loads no SQLAlchemy.
"""
