"""The registry of unfinished requests: what waits is known, and what waited too long is moved.

```
<topic>.<group>.wait ── source ─▶ changes ─▶ table: onceward_wait, and how far it was read
      ▲                                        │ due, and no living holder (Redis)
      └── tombstone ◀── moving ◀───────────────┘
                          └── letter ─▶ <topic>.<group>.dlq
```

`registry` is one process of it, from outage to outage; `held` are the partitions that the group and
the table say are its own, each one `owned`. `topics` finds the wait topics and says what is wrong
with them. `changes` is what records mean, pure; `table` keeps it, by `partitions` only for their
owner; `facts` are its rows. `moving` moves what expired, and says what
is true after each step; `letter` is what is written, pure; `reading` brings records back, since the
table has no payload. `tally` counts.

Decisions taken, and their cost. The table is a copy of what the topics say: thrown away, it is read
again. How far it was read stands beside it, in the same transaction, so that offsets are committed
nowhere else: the group `<group>.expire` shows no lag, the line `waits.status` says how it stands.
What must happen once, the letter, is guarded by the broker (`feedback.kafka.fence`) and not by a
clock: the lease in the table only spares two registries from working against each other. For that
the Kafka user needs Write on the transactional ids `onceward.<group>.expire.*`.

Not obvious: markers of the fence, and what compaction took, have offsets and are no records.
Whether a partition was read to the end is asked of positions, never of the last record.
"""
