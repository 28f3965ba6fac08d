"""Records that follow a row of the journal until Kafka has acknowledged them.

```
worker's loop ── row ──▶ journal ◀── what waits? ── rounds, a thread
                                                      │ a page
                            Kafka ◀── records ── posting ──▶ Posted: which rows wait no more
```

Dead letters and outcomes go this way (docs: Kafka records): the row is the truth and comes first,
its record follows, and then the row says so. `consumer.journal.waiting` finds the rows that wait.
`recent_runs` is the worker's memory of its own. `rounds` goes through them; `posting` writes a page
of them; `hindrances` says which topics take nothing now, and the time of their next try. `sending`
is a thread that writes records that follow no row, each until Kafka has it.

Decisions, and their cost. A worker writes the records of its own rows, and those of dead workers
when it is its turn: there is no claim on a record, so a crash, or two workers at once, may write
one twice; a reader finds duplicates by the id. A record that Kafka can never take costs no other
record anything (`hindrances`).
"""
