"""Alerts: the owner of a topic's data hears of failures, by a webhook.

```
dead_letters, pausing ──▶ alerts ──▶ grouping ──▶ message ──▶ webhook
   (any thread)              └── its own thread from here on
```

`alerts` is the feature that the worker calls, its thread, and its `FailureDetection`: which
failures are news, the first of a kind, or too many a minute. `grouping` makes one alert of many and
keeps quiet in between. `message` has the text that is posted, and the queue of one webhook: it
posts, waits longer each time that fails, and forgets in the end.

Decisions, and their cost. An alert waits two seconds for more of its kind, and after it a topic is
quiet about this kind for `every_s`; later failures are reported then. Each worker reports its own
failures. Events that all workers see are reported by one that Redis chooses, and by each while
Redis is away. Alerts that could not be posted in time are counted and dropped: an alert is no
record, and nothing of the road ever waits for one.
"""
