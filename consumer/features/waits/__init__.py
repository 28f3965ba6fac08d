"""Requests that must not be lost although no client waits for them (`delivery="at_least_once"`).

```
intake ── record ──▶ preparing ─▶ wait record, acknowledged ─▶ commit ─▶ buffer ─▶ the road
                                                                                    │ final
keeper ◀── <topic>.<group>.wait ◀──────────────── tombstone ◀── ends ◀──────────────┘
  │ no tombstone, no living holder
  └─▶ a wait record of our own, read back ─▶ buffer
```

`record` is the record in the topic. `preparing` writes it before an offset is committed. `ends`
writes how a request ended; `ended` is the message that it writes. `keeper` goes on with requests of
dead workers: `resuming` has the unfinished requests and their first takers, and makes a delivery
from a wait record; `holders` has the living workers, and names the faults of topics. `waits`
connects them; `declared` tells by a record and the declaration whether a run may follow another.
`private_journal` stands in where there is no journal. `registry/` expires what waits too long.

Decisions taken, and their cost. The log itself decides which worker goes on, so no database is
needed: a taking is a record, and the first one counts; each taking costs a write and waiting until
it is read back. Wait records stand where their id says and not beside their source, so that a
resend without a key meets them; partitions must not be added to a wait topic that is not empty. A
keeper reads its partitions from their begin after each rebalance, which compaction keeps short.

Not obvious: a tombstone follows the status for the client, since all that is final goes that way.
Requests past their expiry are left to the registry.
"""
