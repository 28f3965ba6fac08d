"""Collapse by key: of the requests of one key that wait together, one runs in the others' stead.

```python
@handler(topic="recalculations", order="key", collapse=lambda request: True)
def recalculate(request): ...
```

- `checks`: declarations that cannot be kept, pure. `collapsing`: who stands in for whom, from the
  moment at which a run begins.
- `consumer/pool/predicates.py` asks the user's function, in the child.
- `consumer/loop/order/lanes.py` gathers: of such a handler a request waits in its lane for others,
  until none has come for `QUIET_S`, at most `GATHER_S` after the first.
- `consumer/journal/skipping.py` writes the rows: SKIPPED, with the request that ran in `by`.

The way of a round. All that the buffer has of such a topic goes into its lanes, whether slots are
free or not. The first of a lane is claimed like any request and given to a child, and what waits
behind it at that moment is what it stands in for. The child asks the predicate about it first:
- no: it ends SKIPPED `NOT_APPLICABLE`, and the next one is claimed;
- yes: the handler runs. When it has SUCCEEDED, what it stands in for ends SKIPPED, all of it with
  one statement, in the transaction of its finish. When it failed, or is in doubt, or has expired,
  nothing is skipped for it and the next one is claimed; while it waits for its retry it holds its
  key, as ever, and stands then for what waits when that run begins.
So the predicate is asked in the order of the offsets, until one has said yes and succeeded; of the
others nobody asks any more. What came after the run had begun is the next round.

What is true if the worker dies
- before the finish of the one: nothing is skipped. The others have no rows: they are LOST, and
  once they are sent again they are a round of their own, behind what the one became;
- after it: the one has SUCCEEDED and the others are SKIPPED, together. Clients that were not told
  are told by a sweep. Of a transactional handler the child commits the finish, and the others
  follow in the worker's next transaction: between the two they are LOST, and none is skipped.
No row says SKIPPED by one that has not succeeded: the statement itself looks.

Decisions, and their cost. The predicate is the user's code, so a child runs it, under the claim of
its request: what it raises fails that request (`HANDLER_ERROR`, nothing has happened), what hangs
is ended by `time_limit_s` with its child, and what dies there goes by the handler's policy, as if
the handler had died. Each no costs a turn of the loop, as a request that runs does. It is not asked
again where the run before may have had its effect (`retry_same_key`): a no would hide that.
A request waits `QUIET_S` longer than it would without `collapse=`; more is read in one poll than
the buffer holds, since the lanes hold it: up to `order_held_limit` and a poll more.

Not skipped: what another worker holds or has read (it is answered from the journal there), what has
a row already (a redrive, a resend of a failure: it was asked for), what is past its deadline
(EXPIRED, by the same statement), and what an answer of `query=` would stand in for.
"""
