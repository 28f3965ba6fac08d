"""`onceward-dlq`: dead letters shown to a person, and repaired.

```
Kafka ── reading, page by page ── dialects ──▶ letters ── filter, seen ──▶ meant, once each
journal ── what became of them? ── standing ─────────────┘   ├── tally ──▶ list_page, as_json
                                                             └── columns ──▶ exporting
one id ── case: letters, journal row, runs, actions, status ── show_page, as_json
meant ── redriving: reopened, told, sent back ── redrive_traces: what a killed one has sent
```

Reading: `letter` is what all of it is about; `dialects` understand what others write; `reading`
knows the group's topics, over `feedback/kafka_scan`. `standing` says what a letter is good for now.
`listing` goes through letters, `columns`, `parquet` and `exporting` are a file for analysis. Bytes
are shown by `decoded` and `reindent`, times of a list by `histogram`. `list`, `show` and `export`
are in `commands`, whose group the acting commands join as well; `options` and `moments` are what
they take.

Acting: `acting_commands` are `redrive_commands`, `deciding_commands`, `discarding_commands` and
`expire_commands` (the registry itself is `consumer/features/waits/registry`), with
`acting_options`. A redrive is begun, resumed and rehearsed by `redrive_sessions`, from its
`redrive_plan`, with `redrive_tools`; `redriving` is its loop. It reads a page `ahead`, and reopens
a batch while `redrive_carrying` brings the one before on its way: `redrive_record` makes what is
sent (`setting`: one value anew), `redrive_telling` says it in Redis. `redrive_progress` counts, and
knows what is done and what is on its way; `redrive_owner` says whose it is, `redrive_said` shows
it.

Decisions, and their cost. A letter in Kafka never changes, so what became of its request is asked
of the journal each time: a list of 100,000 letters is 100 questions of 1,000 ids. Memory does not
grow with the letters: pages of them, the newest few for the list, counts with a limit of names, and
a table on disk for those that were written twice.

Not obvious: everything in a letter was written by somebody else. A terminal sees it by `printable`
and never as rich's markup; numbers and times are taken only in the ranges that we can hold.
"""
