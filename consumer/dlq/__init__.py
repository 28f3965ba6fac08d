"""`onceward-dlq`: shows dead letters to a person, and repairs them.

```
Kafka ── reading, page by page ── dialects ──▶ letters ── filter ──▶ chosen, once each
journal ── states of requests ── letter_state ─────────────┘   ├── tally ──▶ list_page, as_json
                                                               └── exporting
one id ── report_reading ──▶ report ─┬─ timeline ──────┬── show_page, as_json
                                     └─ next_commands ─┘
chosen ── redrive: reopen, write PENDING, send
```

Reading: `letter` is the dead letter; `dialects` understand the headers that other systems write;
`letter_reader` reads the group's topics, over `feedback/kafka/scan`. `letter_state` is the state of
its request now. `doubts_list` shows rows in doubt, and claims that may become doubts, `doubts_page`
their counts; `list_hints` is the journal's part of a list. `listing` goes through letters, each
once; `exporting` writes them to a file for analysis, as Parquet or JSON lines, and `doubts_export`
the doubts. `decoded` shows bytes, and `editing` lets a person edit them. The commands `list`,
`show` and `export` are in `commands`, whose group the acting commands join as well; `options` has
the options of all, and `dates` reads and writes points in time.

One request: `report` is all that is known of it, in whatever state; `report_reading` asks Kafka,
the journal and Redis. `timeline`, `timeline_words` and `next_commands` are pure: any page
may use them. `show_page` is the terminal's, which begins with `timeline_page`.

Acting: `redrive` sends letters back, `unfinished` names redrives that were cut off; `list_hints`
says first where later requests of the same key have succeeded. `discard_command` closes cases;
`resolve_command` ends doubts, and starts the registry of `consumer/features/waits/registry`.
`since_words` says what people have done since an act that somebody has seen.

Decisions, and their cost. A letter in Kafka never changes, so the state of its request is asked of
the journal each time: a list of 100,000 letters takes 100 queries of 1,000 ids. Memory does not
grow with the number of letters: they pass in pages, the list stores only the newest few, the counts
have a limit of names, and a table on disk finds the letters that were written twice.

A server that is away is a NotAvailable, whose text says which one; no docstring repeats it.

Not obvious: everything in a letter was written by somebody else. A terminal gets it through
`printable` and never as rich's markup. Numbers and times are accepted only in ranges that our types
can store.
"""
