"""Automatic retries: which failures run again, when, and how they are woken up.

```python
from onceward import Exponential, handler


@handler(topic="payments", effect="marked", retry_on=("BANK_BUSY", ConnectionRefusedError),
         blocking="20ms x 2", retries=Exponential("1s", tries=6, most="5m", jitter=0.5))
def charge(request): ...
```

- `consumer.handlers` says whether and when a failed run is tried again, pure. `next_run` makes the
  end of a run of that.
- `headers`: names of the retry topics and the headers of their records, pure. `retry_sender`
  sends them, `delay_queue` (pure) and `retry_reader` read them back when they are due. `overdue`
  sweeps those that were not woken up.

A record in a retry topic is a wake-up and no more: the journal's RETRYING row is the truth. The row
is committed first, then the record is sent; a claim from RETRYING needs the row's generation and
its time. So a record that is lost is sent again by a sweep, and one too many does nothing.

Not obvious. The readers of the retry topics are a consumer group of their own, `<group>.retry`
(`feedback.records.retry_group` says why).
"""
