"""Dead letters: what failed for good is set aside with everything needed to understand it.

```
worker's loop ── FAILED row ──▶ journal ◀── what waits? ── dead_letters, a thread
      └── record, stack ──▶ evidence, payloads ──▶ letter ──▶ posting ──▶ <topic>.<group>.dlq
```

The row is the truth and comes first; a letter follows until Kafka has acknowledged it, and then the
row says so (contract, section 7). `evidence` is what this worker still remembers of what it has
failed; `payloads` reads the rest from where it came. `letter` says what a letter has in its
headers, pure. `posting` writes a page of them; `hindrances` says which topics take none now, and
when they are tried again; `dead_letters` goes through what waits.

Decisions, and their cost. A worker writes the letters of its own failures, and those of dead
workers when it is its turn: no claim on a letter is kept, so that a crash, or two workers at once,
may write one twice; who reads them goes by the request's id. What waits is gone through from the
oldest on and never again before a pause, so that a letter which Kafka can never take costs nobody
else anything.

Not obvious: a letter's payload is read from Kafka before Redis is asked. It is to be written to
Kafka anyway, and only the record has the headers and the time as they were sent.
"""
