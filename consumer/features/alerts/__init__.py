"""Alerts: the owner of a topic's data hears of failures, by a webhook.

```
dead_letters, pausing ──▶ alerts ──▶ noticing ──▶ grouping ──▶ message ──▶ outlet ──▶ webhook
   (any thread)              └── its own thread from here on ──────┘
```

`noticing` says which failures are news: the first of a kind, or too many a minute; `grouping` makes
one alert of many and keeps quiet in between; `message` is what is posted. All three are pure: they
go by events and `now`. `outlet` posts to one webhook, waits longer each time that fails, and
forgets in the end. `alerts` is what the rest of the worker calls, and the thread.

Decisions, and their cost. An alert waits two seconds for more of its kind, and after it a topic is
quiet about this kind for `every_s`, whatever comes: what came is told then. Each worker tells what
it has seen itself; what all of them see is told by whom Redis lets, and by each while Redis is
away. What could not be posted in time is counted and let go: an alert is no record, and nothing of
the road ever waits for one.
"""
