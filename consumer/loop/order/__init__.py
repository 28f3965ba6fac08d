"""Order by key: requests of one key run one at a time, in offset order, across retries too.

```python
@handler(topic="accounts", order="key", retry_on=("BANK_BUSY",), retries="1s x 2, 5s x 2")
def book(request): ...
```

- `keys`: which requests belong together, and the name of that in the journal, pure. `checks`:
  declarations that would break the order that they ask for.
- `key_queues`: requests that wait behind another one of their key in this worker, pure but for its
  own state.
- `unclaimed`: when a partition goes to another worker, or this one ends, waiting requests are not
  left behind: their lowest offset is committed once more, and the next owner reads from there.
- `consumer/journal/ordering.py`: the claim that another worker cannot overtake. `key_queues` alone
  would do for one worker; a rebalance, a crash or a restart brings a key to a worker that does not
  know its runs, so the journal refuses the claim (verdict HELD) while another request of the key is
  CLAIMED or RETRYING.

The promise: two requests of a key never run at once, whichever process dies. A request that waits
for a retry holds its key. An ended one lets the next go, also when it failed for good or is in
doubt: a key must not stand still until a person has time. Requests without a key keep no order.

Where a handler collapses (`consumer.features.collapse`), its queues also gather: the first of a key
waits a little for others, and they leave their queue without a run when it has succeeded.

A topic is paused when `order_held_limit` of its requests wait for their keys. Its requests in the
buffer then go behind the others of their keys. So at most that many and a buffer more wait of one
topic, and no other topic waits for it.

Not obvious. A request that is LOST (its worker was killed before it was claimed, or the journal was
away for longer than `wait_s`) is sent again by its client, and has the place of its new record,
behind requests that were sent meanwhile. A worker that was put out of the group, as one that stood
still for longer than its session, hands nothing over: it still runs what it had read, and so maybe
behind requests that the next owner has run meanwhile. A key that is held for an hour
has its partition read again from there when it goes to another worker: the records between are
answered from the journal, as many as there are (`read_again` of `partitions.handed_over`). There is
no bound to that: a record that is not read again would be lost, or come back behind later ones.
Reading no further while a key is held would hold up all other keys instead.
"""
