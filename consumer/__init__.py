"""The worker's room: a committed record runs at most once, and its client is told how it ended.

The way of a request (contract, section 5) and the file of each step:

1. `kafka_source` reads a record, `delivery` says what it asks for; `intake` tells ACCEPTED,
   commits the offset and puts it into the bounded `buffer`.
2. `worker`, the one loop, takes what a slot is free for (`choosing`, from `admission`), claims it
   in the `journal/` (`writing`) and hands it to the `pool/`, where a child runs the user's function
   (`handlers`, `declaration`, `declared`, `registry`, `request`), or the one that asks the
   counterparty about a run in doubt (`answers`). `pacing` says how long the loop may wait.
3. The outcome comes back to `worker`, which finishes it in the journal; `consequences` carries out
   what was written (`granted`: as what a delivery runs), `telling` makes a status of it, which
   waits as `untold` until `teller` writes it to Redis.
4. A run that has no end (its child died, or nobody can know) goes by `continuation`, pure, to the
   next run, to the counterparty, or to a person. `held` is what is in hand.
5. A failure that is declared to have left nothing runs again by itself, later: `retries/`.

Beside the road: `dead_letters/` sets aside what failed for good (`failure_headers` are its words),
`dead_letter_handlers/` gives it to handlers of the user's, `alerts/` tells the data's owner.
Of requests of one key that wait together one may run for all: `collapse/`, with `order/`.
Requests that no client waits for have wait records: `waits/`. `batch_intake` reads in batches.
`liveness` keeps the lease, `heartbeat` says so in Redis, `republisher` tells again what a restarted
Redis forgot, `outage` logs who is away, `set_aside` leaves out partitions that Kafka refuses.
`sweeper` finds what dead workers left, with `revival` for their payloads (`kept_record`: as their
clients kept them), and repairs statuses: `settling` says how a dead claim ends, `far_leases` which
leases a wrong clock left, `look_back` how far a sweep looks. `own_runs` compares the journal with
the runs of this worker (`ended_runs` remembers those that ended), for a database that lost commits.
`declared` compares a child's declarations with the worker's. `health/` watches progress.
`kafka_thread` is what threads that read Kafka share.
`parts` connects what `making` here and in the packages makes, `service` starts and ends it, `check`
(with `durability`) and `commands` are `onceward-worker`.

Decisions taken, and their cost. One transaction a turn carries finishes, effects and claims: half
the syncs to disk, and a claim waits for the finishes beside it. Kafka is read in a thread of its
own, since a poll must not be short and a commit must not stop the pool: a hand-over through a
bounded buffer. Statuses are told by another thread: Redis may be away without anybody waiting.

Not obvious: nothing in the buffer is claimed, nothing claimed is in the buffer; what a crash
leaves in doubt is only what was running.
"""

from consumer.answers import Happened, Unknown, Voided
from consumer.handlers import InDoubt, Rejected, handler
from consumer.request import Request

__all__ = ["Happened", "InDoubt", "Rejected", "Request", "Unknown", "Voided", "handler"]
