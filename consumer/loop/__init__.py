"""One turn of the worker: take what a slot is free for, claim it, dispatch it, settle how it ended.

- `worker` is the way of a request, on one page. `scheduler` orders the requests that wait,
  `selection` takes the next and says how long to wait, `writing` claims and finishes in one
  transaction.
- `in_flight` keeps the requests in hand; `settlement` (pure) says how a run ended, and so what is
  written; `follow_up` carries out what was written. `mapping` makes rows and jobs of deliveries,
  `granted` reads a claim, `limits` are the loop's numbers.
- `continuation` (pure) says what follows a run that has no end. `order/`: requests of one key run
  one at a time. `due_quota`: how much of a busy worker goes to retries.
- `feature` is what the core offers to features: a gate, a say in how a run ends, and what they
  hear. The loop holds a tuple of them and imports none.
- `sweeper` goes on with what dead workers left: `dead_ends` says how a dead claim ends, `look_back`
  and `far_leases` which claims are looked at, `payload_lookup` (with `stored_record`) finds the
  payload.
- `own_runs` (with `ended_runs`) and `told_runs` compare the journal with what this worker and its
  clients know, for a database that has lost commits. `lease` is what the loop asks of its lease.
"""
