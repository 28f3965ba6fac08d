"""Sweeps: a peer goes on with rows that nobody goes on with.

- `sweep`: peers settle the claims of dead workers.
- `dead_claims`: finds claims of dead workers, also those that no handler is left for;
  `gone_owners`: dead workers that have none left, pure.
- `retrying`: whose next run is overdue.
- `pruning`: deletes old rows.
"""
