"""The registry of unfinished requests: it knows those that wait, and moves those that expired.

```
<topic>.<group>.wait ── source ─▶ facts ─▶ table: onceward_wait, and how far it was read
      ▲                                        │ due, and no living holder (Redis)
      └── tombstone ◀── moving ◀───────────────┘
                          └── letter ─▶ <topic>.<group>.dlq
```

`registry` is one process of it, from outage to outage; `held` are the partitions that the group and
the table say are its own. `topics` finds the wait topics, names their faults, and lists the rights
on Kafka. `facts` are the rows of the table, and its changes, made from records, pure; `table`
stores them, by `partitions` only for their owner. `moving` moves expired requests, and says how
things stand after each step; `letter` brings a record back, since the table has no payload, and
makes the letter. `batches` writes about many requests in one statement, `tally` counts.

Decisions taken, and their cost. The table is a copy of the topics: thrown away, it is read again.
How far it was read stands beside it, in the same transaction, so that offsets are committed nowhere
else: the group `<group>.expire` shows no lag, the line `waits.status` says how it stands. The
letter, which must be written once, is guarded by the broker (`feedback.kafka`) and not by a
clock: the lease in the table only spares two registries from working against each other. For that
the Kafka user needs Write on the transactional ids `onceward.<group>.expire.*`.

Not obvious: markers of the fence, and compacted records, have offsets and are no records. Whether a
partition was read to the end is asked of positions, never of the last record.
"""
