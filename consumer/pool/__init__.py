"""The pool: jobs go in, and what becomes of each comes out, whatever the handlers do.

```
worker's loop    Pool                                      child process
dispatch(jobs) ─ Member.give ─ wire, frames ─ socketpair ─▶ child ─ Slots ─ Runs ─▶ the handler
poll(timeout) ◀─ Member.receive ◀────────────────────────── Outbox ◀─ Outcome ◀─────────┘
```

Why not `multiprocessing.Pool`: there, children share the locks of its queues, and one that is
killed while it holds the read lock stops all others for ever; and the task of a killed child is
never heard of again. Here each child has a socket of its own, no lock is shared, and a child says
what it starts before it starts it. So the death of one child is known at once, with exactly the
jobs that may have run and those that have not, and touches nobody else.

Parent: `pool` (the loop's side), `crew` (which children there are), `member` (one child), `ledger`
(its jobs and their time limits), `handover` (what it was given and has not started), `succession`
and `backoff` (when another is started), `memory`, `watch` and `wakeup` (what is waited for),
`spawning`, `death`.
Child: `child` (entry), `slots` (how many run), `coroutines`, `outbox` (its way out), `runs` (one
run), `predicates` (asking first whether to run, for `consumer.features.collapse`), `queries`
(asking the counterparty instead), `effects` (asking at a marked effect), `transactional`, `fault`.
Both: `job`, `events`, `outcome` (the rule how a run ended), `wire` and `frames` (no pickle).

Decisions, and their cost. One thread drives the pool, and only `wake` is safe elsewhere; it must
outlive the pool, because PR_SET_PDEATHSIG is tied to the thread that spawned a child. Children are
spawned, never forked, so each costs an interpreter (11 MiB of its own) and 0.2 s. The parent never
blocks on a child: what a child does not read stays in the parent's memory, bounded by its slots.
A run past its time limit costs its whole child: nothing less ends a plain function. A child that is
replaced without a fault overlaps with its successor, so there may be twice as many for a while.
Needs Linux: pidfd, eventfd, prctl.
"""

from consumer.pool.events import (
    ChildDied,
    ChildFailed,
    ChildReady,
    ChildRetired,
    EffectAsked,
    Event,
    Finished,
    Started,
)
from consumer.pool.job import Job, PoolSettings
from consumer.pool.outcome import Outcome
from consumer.pool.pool import Load, Pool

__all__ = [
    "ChildDied",
    "ChildFailed",
    "ChildReady",
    "ChildRetired",
    "EffectAsked",
    "Event",
    "Finished",
    "Job",
    "Load",
    "Outcome",
    "Pool",
    "PoolSettings",
    "Started",
]
