"""What the outbox costs and what it bears: `python -m tests.bench.outbox`.

The rows of `build/bench/outbox.json` name their case:

- `insert`: what a send adds to the caller's transaction, p50 and p99 in ms, against the same
  transaction without it, in turn.
- `relay`: rows that were there, and one relay process: requests/s from the first row marked to the
  last. `latency`: a request at a time, from its commit to Kafka's own timestamp, p50 and p99 in ms.
- `kills`: a relay killed so many times on the way: lost, sent twice; of what a worker then ran: not
  run, ran twice.
- `cut`: 200 sends/s by a client that falls back to its outbox; the broker is killed and comes back
  after a minute: sends refused and why, the slowest send, how long after its return the outbox was
  empty, lost, sent twice.

`other_cpu_percent` is what other processes took of the machine meanwhile.
"""
