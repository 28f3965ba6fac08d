"""Requests that must not be lost although no client waits for them (`delivery="at_least_once"`).

```
intake ── record ──▶ write_ahead ─▶ wait record, acknowledged ─▶ commit ─▶ buffer ─▶ the road
                                                                                      │ final
takeover_reader ◀── <topic>.<group>.wait ◀── tombstone ◀── tombstone_writer ◀─────────┘
  │ no tombstone, no living holder
  └─▶ a wait record of our own, read back ─▶ buffer
```

`wait_record` is the record in the topic. `write_ahead` writes it before an offset is committed.
`tombstone_writer` writes how a request ended; `wait_end` is the message that it writes.
`takeover_reader`, the keeper, goes on with requests of dead workers: `unfinished_requests` has them
and their first takers, and makes a delivery from a wait record; `live_workers` has the holders, and
names the faults of topics. `waits` connects them; `declared` tells by a record and the declaration
whether a run may follow another. `private_journal` stands in where there is no journal. `registry/`
expires what waits too long.

Decisions taken, and their cost. The log itself decides which worker goes on, so no database is
needed: a taking is a record, and the first one counts; each taking costs a write and waiting until
it is read back. Wait records stand where their id says and not beside their source, so that a
resend without a key meets them; partitions must not be added to a wait topic that is not empty. A
keeper reads its partitions from their begin after each rebalance, which compaction keeps short.

Not obvious: a tombstone follows the status for the client, since all that is final goes that way.
Requests past their expiry are left to the registry.
"""
