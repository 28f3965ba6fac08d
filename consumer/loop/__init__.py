"""One turn of the worker: take what a slot is free for, claim it, dispatch it, settle how it ended.

- `worker` is the way of a request, on one page. `admission` orders the requests that wait,
  `choosing` takes the next, `writing` claims and finishes in one transaction, `pacing` says how
  long to wait.
- `held` keeps the requests in hand, `entries` makes rows and jobs of them, `granted` reads a claim.
- `consequences` carries out what a transaction has written; `continuation` (pure) says what follows
  a run that has no end. `order/`: requests of one key run one at a time.
- `sweeper` goes on with what dead workers left: `settling` says how a dead claim ends, `look_back`
  and `far_leases` which claims are looked at, `payload_lookup` (with `stored_record`) finds the
  payload.
- `own_runs` (with `ended_runs`) and `told_runs` compare the journal with what this worker and its
  clients know, for a database that has lost commits. `lease` is what the loop asks of its lease.
"""
