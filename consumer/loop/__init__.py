"""One turn of the worker: take requests for free slots, claim and dispatch them, settle their ends.

- `worker` is the way of a request, on one page. `scheduler` orders the requests that wait,
  `selection` takes the next and says how long to wait, `writing` claims and finishes in one
  transaction. `write_batching` (pure) lets outcomes come together for it.
- `in_flight` keeps the requests in flight, and alone changes their state; `in_hand` shows all
  requests to other threads. `settlement` (pure) says how a run ended, and so how its row changes;
  `follow_up` acts on the changed rows. `mapping` makes rows and jobs of deliveries, `granted` reads
  a claim, `limits` are the loop's numbers.
- `continuation` (pure) says how a run without an end is followed. `order/`: requests of one key run
  one at a time. `due_quota`: how much of a busy worker goes to retries.
- `feature` is the interface of features: a gate, a say in how a run ends, and calls that report.
  The loop holds a tuple of them and imports none. Their factories are given the `core`.
- `recovery/`: a thread goes on with the claims of dead workers. `dead_ends` (pure) says how such a
  claim ends; `payload_lookup`, with `stored_record`, finds its payload.
- `own_runs` (with `ended_runs`) and `told_runs` compare the journal with the memory of this worker
  and the statuses in Redis, for a database that has lost commits. `lease` is the loop's view of its
  lease.
"""
