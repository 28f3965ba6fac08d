"""`onceward-dlq`: dead letters shown to a person, and repaired.

```
Kafka ── reading, page by page ── dialects ──▶ letters ── filter, seen ──▶ meant, once each
journal ── what became of them? ── standing ─────────────┘   ├── tally ──▶ list_page, as_json
                                                             └── columns ──▶ exporting
one id ── case: letters, journal row, runs, actions, status ── show_page, as_json
meant ── redriving: reopened, told, sent back ── redrive_traces: what a killed one has sent
```

Reading: `letter` is a dead letter, read; `dialects` read the letters of other systems; `reading`
knows the group's topics, over `feedback.kafka.scan`. `standing` is the state of a letter now.
`listing` goes through letters, `columns`, `parquet` and `exporting` are a file for analysis. Bytes
are shown by `decoded` and `reindent`, times of a list by `histogram`. `list`, `show` and `export`
are in `commands`, whose group the acting commands join as well; `options` and `moments` are their
arguments.

Acting: `acting_commands` are `redrive_commands`, `deciding_commands`, `discarding_commands` and
`expire_commands` (the registry itself is `consumer/features/waits/registry`), with
`acting_options`. A redrive is begun, resumed and rehearsed by `redrive_sessions`, from its
`redrive_plan`, with `redrive_tools`; `redriving` is its loop. It reads a page `ahead`, and reopens
a batch while `redrive_carrying` brings the one before on its way: `redrive_record` makes the
records (`setting`: one value anew), `redrive_telling` writes the statuses to Redis.
`redrive_progress` counts letters that are done and those on their way; `redrive_owner` names the
process that runs it, `redrive_said` shows it.

Decisions, and their cost. A letter in Kafka never changes, so the journal is asked each time for
the state of its request: a list of 100,000 letters is 100 questions of 1,000 ids. Memory does not
grow with the letters: pages of them, the newest few for the list, counts with a limit of names, and
a table on disk for those that were written twice.

Not obvious: everything in a letter was written by somebody else. A terminal sees it by `printable`
and never as rich's markup; numbers and times are taken only in the ranges that we can hold.
"""
