"""Dead letters: requests that failed for good, set aside with everything to understand them.

```
worker's loop ── FAILED row ──▶ journal ◀── what waits? ── dead_letters, its own thread
      └── record, stack ──▶ recent failures, payloads ▶ letter ▶ letter_writer ▶ <topic>.<group>.dlq
```

How a letter follows its row stands in `consumer.features.outgoing` (docs: Kafka records).
`outgoing/recent_runs` is this worker's memory of its failures; `letter_writer` reads other records
from their topics. `letter` makes the headers of a letter, `strategies` says which failures become
one; both are pure.

Not obvious: a letter's payload is read from Kafka before Redis is asked. It is to be written to
Kafka anyway, and only the record has the headers and the time as they were sent.
"""
