"""`onceward-dlq`: shows dead letters to a person, and repairs them.

```
Kafka ── reading, page by page ── dialects ──▶ letters ── filter, seen ──▶ chosen, once each
journal ── states of requests ──── standing ─────────────┘   ├── tally ──▶ list_page, as_json
                                                             └── columns ──▶ exporting
one id ── case: letters, journal row, runs, actions, status ── show_page, as_json
chosen ── redrive: reopen, write PENDING, send
```

Reading: `letter` is the dead letter; `dialects` understand the headers that other systems write;
`reading` reads the group's topics, over `feedback/kafka/scan`. `standing` is the state of a letter
now. `listing` goes through letters; `columns`, `parquet` and `exporting` write them to a file for
analysis. `decoded` and `reindent` show bytes, `histogram` the times of a list. The commands `list`,
`show` and `export` are in `commands`, whose group the acting commands join as well; `options` and
`moments` read their options.

Acting: `redrive` sends letters back; `deciding_commands`, `discarding_commands` and
`expire_commands` are the other acting commands (the registry itself is
`consumer/features/waits/registry`), with `acting_options`.

Decisions, and their cost. A letter in Kafka never changes, so the state of its request is asked of
the journal each time: a list of 100,000 letters takes 100 queries of 1,000 ids. Memory does not
grow with the number of letters: they pass in pages, the list stores only the newest few, the counts
have a limit of names, and a table on disk finds the letters that were written twice.

Not obvious: everything in a letter was written by somebody else. A terminal gets it through
`printable` and never as rich's markup. Numbers and times are accepted only in ranges that our types
can store.
"""
