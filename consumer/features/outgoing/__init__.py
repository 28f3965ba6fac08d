"""Records that follow a row of the journal until Kafka has acknowledged them.

```
worker's loop ── row ──▶ journal ◀── what waits? ── outgoing_loop, a thread
                                                      │ a page
                            Kafka ◀── records ── record_writer ──▶ PageResults: the rows now done
```

Dead letters and outcomes go this way (docs: Kafka records): the row is the truth and comes first,
its record follows, and then the row says so. `consumer.journal.waiting` finds the rows that wait.
`recent_runs` is the worker's memory of its own. `outgoing_loop` goes through them; `record_writer`
writes a page of them; `blocked_topics` says which topics take nothing now, and the time of their
next try. `sending_thread` is for records without a row: it writes each until Kafka has it.

Decisions, and their cost. A worker writes the records of its own rows, and those of dead workers
when it is its turn: there is no claim on a record, so a crash, or two workers at once, may write
one twice; a reader finds duplicates by the id. A record that Kafka can never take costs no other
record anything (`blocked_topics`).
"""
