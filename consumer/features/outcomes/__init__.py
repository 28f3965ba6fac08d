"""Outcomes onward: how a request ended becomes a record of the topic that its handler names.

```
worker's loop ── final row ──▶ journal ◀── what waits? ── outcomes, its own thread
      └── ended ──▶ recent ends ────────────────▲           └──▶ record ──▶ <outcome_topic>
```

How a record follows its row (`consumer.journal.owed_rows`) stands in `consumer.features.outgoing`.
`RecentEnds` wakes the thread and remembers trace contexts.

Decisions, and their cost.
- Ended is SUCCEEDED, EXPIRED, SKIPPED, and FAILED: at once where no resend may help, else when the
  deadline is over. IN_DOUBT is not an end: an outcome that may be taken back is none. Its record
  follows when a person has resolved it.
- There is one record for each generation that a request ended with. That is one for each request,
  but for one that failed and was redriven: then another follows, with a higher generation.
- Written again after a crash, a record is the same byte for byte, in the same partition: a reader
  finds duplicates by `onceward-outcome-id`, and a worker of ours does so by itself.
- A result is never cut to fit: a topic that is too small for it is an alarm, and the record waits.
- Requests that were first claimed before their handler named a topic have no outcome.
"""
