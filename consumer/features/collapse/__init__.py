"""Collapse by key: of the requests of one key that wait together, one runs in the others' stead.

```python
@handler(topic="recalculations", order="key", collapse=lambda request: True)
def recalculate(request): ...
```

- `checks`: declarations that cannot be kept, pure. `collapsing`: which request stands in for which,
  from the moment at which a run begins.
- `consumer/pool/predicates.py` asks the user's function, in the child.
- `consumer/loop/order/key_queues.py` gathers: of such a handler a request waits in its queue for
  others, until none has come for `QUIET_S`, at most `GATHER_S` after the first.
- `consumer/journal/claims/skipping.py` writes the rows: SKIPPED, with the request that ran in `by`.

The way of a round. All requests of such a topic go from the buffer into its queues, whether slots
are free or not. The first of a queue is claimed like any request and given to a child. It stands in
for those that wait behind it at that moment. The child asks the predicate about it first:
- no: it ends SKIPPED `NOT_APPLICABLE`, and the next one is claimed;
- yes: the handler runs. When it has SUCCEEDED, those it stands in for end SKIPPED, all with one
  statement, in the transaction of its finish. When it failed, or is in doubt, or has expired,
  nothing is skipped for it and the next one is claimed. While it waits for its retry it holds its
  key, as ever. That run then stands in for those that wait when it begins. So the predicate is
  asked in the order of the offsets, until one has said yes and succeeded; it is not asked about the
  others. Requests that came after the run had begun are the next round.

The state if the worker dies
- before the finish of the one: nothing is skipped. The others have no rows: they are LOST, and once
  they are sent again they are a round of their own, behind the outcome of the one;
- after it: the one has SUCCEEDED and the others are SKIPPED, together. A sweep writes the statuses
  that are missing then. Of a transactional handler the child commits the finish, and the others
  follow in the worker's next transaction: between the two they are LOST, and none is skipped. No
  row says SKIPPED by one that has not succeeded: the statement itself looks.

Decisions, and their cost. The predicate is the user's code, so a child runs it, under the claim of
its request. An error of it fails that request (`HANDLER_ERROR`, nothing has happened). A predicate
that hangs is ended by `time_limit_s` with its child. If the child dies in it, the request goes by
the handler's policy, as if the handler had died. Each no costs a turn of the loop, as a request
that runs does. It is not asked again where the run before may have had its effect
(`retry_same_key`): a no would hide that. Such a run may repeat an effect of before, so it stands in
only for those that waited when the run before it began; at a peer of a dead worker, which cannot
know them, for none. A request waits `QUIET_S` longer than it would without
`collapse=`; more is read in one poll than the buffer holds, since the queues hold it: up to
`order_held_limit` and a poll more.

Not skipped: requests that another worker holds or has read (they are answered from the journal
there), requests that have a row already (a redrive, a resend of a failure: they were asked for),
requests past their deadline (EXPIRED, by the same statement), and those for which an answer of
`query=` would stand in.
"""
