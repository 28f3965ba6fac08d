"""The pool runs jobs in child processes and reports the end of each, even if a child dies.

```
worker's loop    Pool                                      child process
dispatch(jobs) ─ ChildProcess.give ─ wire, frames ─ socket ─▶ child ─ Slots ─ Runs ─▶ the handler
poll(timeout) ◀─ ChildProcess.receive ◀───────────────────── Outbox ◀─ Outcome ◀────────┘
```

Why not `multiprocessing.Pool`: its children share the locks of its queues. A child that is killed
while it holds the read lock stops all others for ever, and the task of a killed child is never
heard of again. Here each child has a socket of its own, and no lock is shared. A child reports each
job before it starts it. So the death of a child is known at once, with the jobs that may have run
and those that have not, and touches no other child.

Parent: `pool` (the loop's side), `supervisor` (starts and replaces children), `child_process` (one
child), `jobs_in_child` (its jobs and their time limits), `handover` (jobs given but not started),
`respawn_policy` (when another child is started), `memory`, `watch` and `wakeup` (the events that
end a poll), `spawning`, `exit_watch`.
Child: `child` (entry), `lifespans` (objects that its runs share), `slots` (how many run),
`coroutines`, `outbox` (its way out), `runs` (one run), `predicates` (asking first whether to run,
for `consumer.features.collapse`), `queries` (asking the counterparty instead), `effects` (asking at
a marked effect), `blocking_retries` (tries within a run), `transactional`, `fatal`.
Both: `job`, `events`, `outcome` (the rule how a run ended), `wire` and `frames` (no pickle).

Decisions, and their cost. One thread drives the pool, and only `wake` is safe elsewhere; it must
outlive the pool, because PR_SET_PDEATHSIG is tied to the thread that spawned a child. Children are
spawned, never forked, so each costs an interpreter (11 MiB of its own) and 0.2 s. The parent never
blocks on a child: frames that a child does not read stay in the parent's memory, bounded by its
slots. A run past its time limit costs its whole child: nothing less ends a plain function. A child
that is replaced without a fault overlaps with its successor, so there may be twice as many for a
while. Needs Linux: pidfd, eventfd, prctl.
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
from consumer.pool.pool import Pool, PoolLoad

__all__ = [
    "ChildDied",
    "ChildFailed",
    "ChildReady",
    "ChildRetired",
    "EffectAsked",
    "Event",
    "Finished",
    "Job",
    "Outcome",
    "Pool",
    "PoolLoad",
    "PoolSettings",
    "Started",
]
