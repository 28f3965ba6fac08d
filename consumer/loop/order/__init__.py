"""Order by key: requests of one key run one at a time, in offset order, across retries too.

```python
@handler(topic="accounts", order="key", retry_on=("BANK_BUSY",), retries="1s x 2, 5s x 2")
def book(request): ...
```

- `keys`: which requests belong together, and the name of that in the journal, pure. `checks`:
  declarations that would break the order that they ask for.
- `lanes`: what waits behind another request of its key in this worker, pure but for its own state.
- `unclaimed`: when a partition goes to another worker, or this one ends, what waits is not left
  behind: its offset is committed once more, and the next owner reads from there.
- `consumer/journal/ordering.py`: the claim that another worker cannot overtake. `lanes` alone would
  do for one worker; a rebalance, a crash or a restart brings a key to one that knows nothing of
  what runs, so the journal refuses the claim (verdict HELD) while another request of the key is
  CLAIMED or RETRYING.

What is promised: two requests of a key never run at once, whatever dies. What waits for its next
run holds its key; what ended lets the next one go, also when it failed for good or is in doubt: a
key must not stand still until a person has time. Requests without a key keep no order.

Where a handler collapses (`consumer.features.collapse`), its lanes also gather: the first of a key
waits a little for others, and they leave their lane without a run when it has succeeded.

Of a topic of which as many wait as may (`order_held_limit`) nothing more is read, as of one that
is paused. What the buffer has of it by then goes behind the others of its key: of a topic there
wait at most that many and a buffer more, and no other topic waits for it.

Not obvious. A request that is LOST (its worker was killed or put out of the group before it was
claimed, or the journal was away for longer than `wait_s`) is sent again by its client, and has the
place of its new record, behind what was sent meanwhile. A key that is held for an hour has its
partition read again from there when it goes to another worker: the records between are answered
from the journal, as many as there are (`read_again` of `partitions.handed_over`). There is no bound
to that: what is not read again nobody knows of, and it would be lost, or come back behind what was
sent later. Reading no further while a key is held would hold up all other keys instead.
"""
