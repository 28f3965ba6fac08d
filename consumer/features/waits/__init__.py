"""Requests that must not be lost although no client waits for them (`delivery="at_least_once"`).

```
intake ── record ──▶ preparing ─▶ wait record, acknowledged ─▶ commit ─▶ buffer ─▶ the road
                                                                                    │ final
keeper ◀── <topic>.<group>.wait ◀──────────────── tombstone ◀── ends ◀──────────────┘
  │ no tombstone, no living holder
  └─▶ a wait record of our own, read back ─▶ buffer
```

`record` is what stands in the topic. `preparing` and `holding` write it before an offset is
committed, `ends` says how a request ended, `keeper` goes on with what dead workers left: `table`
says what is unfinished and who took it first, `holders` who lives, `resuming` makes of it what goes
on; `ended` is what `ends` says. `waits` connects them, `checks` refuses what cannot be kept, and
`looking` names what is wrong with topics. `private_journal` stands in where there is no journal.

Decisions taken, and their cost. The log itself decides who goes on, so no database is needed: a
taking is a record, and whose stands first has it; each taking costs a write and waiting until it is
read back. Wait records stand where their id says and not beside their source, so that a resend
without a key meets them; partitions must not be added to a wait topic that is not empty. A keeper
reads its partitions from their begin after each rebalance, which is what compaction left.

Not obvious: a tombstone follows what clients are told, since all that is final goes that way. A
first taking is never too late: its record was read from the request's own topic again. What is past
its expiry is left to the registry.
"""
