"""The worker's health: /live, /ready and /metrics.

```
loops ── tick ──▶ Progress ──▶ Watch ──▶ log `worker.stalled`, systemd's watchdog, /live
worker's parts ──▶ Probe ──▶ Vitals ──▶ readiness ──▶ /ready
                                   └──▶ gauges ─────▶ /metrics ◀── exposed ◀── how long it took
```

`progress` is the rule: which loop owes a sign of life, and since when. `watch` is the one thread
that applies it. `probe` reads the parts of the worker from outside, `vitals` is its picture,
`pages` names what is missing. `exposed` counts events for Prometheus as a feature of the loop and
as an observer of the parts (`feedback.observer`; without a port there is none), and times runs and
requests, `calls` the calls of the servers, `gauges` adds values that are read at a scrape; `doubts`
counts the group's open doubts, on one worker at a time, and `lag` the records that wait in Kafka,
over a connection of its own. `pace_meter` counts the requests that end; `pace` says
how many did in the last hour.
`feedback.web.page_server` is the HTTP side, `health` puts it together for the service.

Decisions. A loop lives when it comes round, so a handler of an hour is no stall, and neither is a
server that is known to be away: restarting the worker would bring nothing back. Threads of the HTTP
server only read: a request takes no lock of the road. The id and the key of the oldest request
stand in /ready, never in a label: they are unbounded, and anybody who can produce chooses them.

Not obvious: after a stop of the whole process (SIGSTOP, a frozen cgroup, a suspended host) every
loop looks late. The watching thread was late as well, which is how it knows.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from consumer.ops.health.health import Health
    from consumer.ops.health.progress import LoopProgress
else:
    from feedback.lazy import lazy_names

    # Who shows the heartbeats of workers needs nothing of a worker.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "consumer.ops.health.health": ("Health",),
            "consumer.ops.health.progress": ("LoopProgress",),
        },
    )

__all__ = ["Health", "LoopProgress"]
