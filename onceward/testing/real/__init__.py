"""A bench on real servers: a worker process, its children, Kafka, Redis, a journal in SQL.

```
test ─ Bench ─ record ──▶ Kafka ──▶ onceward worker run ──▶ child: `child`, the test's module
  └─── PointDesk ◀──── a socket: "at this point", "the counterparty is called" ────────┘
```

`switch` says whether a `Bench` is one of these; pytest's `--onceward-real` switches it on.
`servers` finds Kafka and Redis at the addresses of the settings, or starts them. `bench` has a
group, a topic, a `journal` and a `worker` of its own, and removes them. `desk` answers the
children: it decides where a run dies, and calls the counterparties, which live in the test's
process. `child` is the module of handlers that the worker imports, for the handler of a
`child_plan`; it kills its own process where the desk says so.

Decisions, and their cost:

- The journal is an SQLite file of the bench, whatever the settings name: a test writes nothing into
  somebody's database. Kafka and Redis are those of the settings: topics, group and keys have names
  of their own, and are removed at the end.
- A child imports the module of the test. So a handler, and a counterparty that it calls, stand at
  the top of a module; others are refused by name.
- Nothing moves a real clock: `advance` is refused, and pytest shows the test as skipped, with the
  sentence.
"""
