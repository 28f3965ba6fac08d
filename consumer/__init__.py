"""The worker's room: a committed record runs at most once, and its client is told how it ended.

The way of a request (docs: How it works), in the thirteen files that a reader opens. Each step ends
with the files that these ask on the way, for a handler that declares no feature.

1. `intake/intake` reads a record. Its client is told ACCEPTED, its offset is committed, and it
   waits in the bounded `intake/buffer`.
   Asks `intake/kafka_thread`, `handlers/delivery`, `handlers/order_keys`, `intake/gate`,
   `intake/unsure` and `status/status_messages`.
2. `loop/scheduler` orders the waiting requests. When a slot is free, `loop/selection` takes the
   next, and `loop/writing` claims it in a transaction of `journal/journal`.
   Asks `loop/order/key_queues`, `loop/due_quota`, `loop/mapping`, `loop/write_batching`; in the
   journal `journal/session`, `journal/swept_journal`, `journal/commits`, `journal/work`,
   `journal/journal_writer`, `journal/records`,
   `journal/ordering`, `journal/batch`, `journal/claims/claiming` and
   `journal/claims/takeover`.
3. `loop/worker`, the turn itself, dispatches it to `pool/pool`. A child runs the user's function
   (`pool/runs`), or the one that asks the counterparty about a run in doubt.
   Asks `loop/granted`, `pool/supervisor`, `pool/child_process`, `pool/jobs_in_child`,
   `pool/handover`, `pool/wire`, `pool/frames`, `pool/watch` and `pool/wakeup`; in the child
   `pool/child`, `pool/slots`, `pool/job`, `pool/outcome` and `pool/outbox`.
4. The outcome comes back to `loop/in_flight`; `loop/settlement`, pure, says how the run ended. The
   next transaction finishes it, `loop/follow_up` acts on its row, and `status/status_writer` tells
   the client.
   Asks `journal/claims/finishing`, `loop/ended_runs` and `status/status_backlog`. Features hear of
   it (`loop/feature`, `ops/build`): `ops/health/pace_meter` with `ops/health/pace`,
   `features/retries/retries` with `features/retries/next_run`, `features/pausing/pausing` with
   `features/pausing/circuit_breaker`, `features/dead_letters/dead_letters`, `features/waits/waits`
   with `features/waits/tombstone_writer`.

A run that has no end (its child died, or nobody can know) goes by `loop/continuation`, pure, to the
next run, to the counterparty, or to a person. The rooms import only downward.

Beside the road: `features/` has a folder for each thing that a user may declare or set. `ops/` is
the worker as a process, its health and its command line; `dlq/` is the desk of the person who
looks at dead letters and repairs them, `console/` the same in a browser. `handlers/` are the
declarations of users.

Decisions taken, and their cost. One transaction a turn carries finishes, effects and claims: half
the syncs to disk, and a claim waits for the finishes beside it. Kafka is read in a thread of its
own, since a poll must not be short and a commit must not stop the pool: a hand-over through a
bounded buffer. Statuses are told by another thread: Redis may be away without anybody waiting.

Not obvious: nothing in the buffer is claimed, nothing claimed is in the buffer; a crash leaves only
running requests in doubt.
"""

from typing import TYPE_CHECKING

from consumer.handlers.backoff import (
    Backoff,
    Custom,
    Exponential,
    Fixed,
    Immediately,
    Tiers,
    Uniform,
)
from consumer.handlers.declaration import HandlerDefinitionError
from consumer.handlers.decorator import handler
from consumer.handlers.errors import EffectRefused, InDoubt, Rejected
from consumer.handlers.lifespan import Lifespan, LifespanError, lifespan
from consumer.handlers.query_result import Happened, Unknown, Voided
from consumer.handlers.request import Request
from consumer.handlers.retry_policy import RetryPolicy
from feedback.errors import InvalidMessage, NotAvailable, OncewardError, SettingsError

if TYPE_CHECKING:
    from consumer.handlers.dead_letters.dead_letter import DeadLetter
    from consumer.journal.errors import JournalUnavailable, JournalVersionError
    from consumer.journal.schema import migrate
    from feedback.settings.settings import Settings
else:
    from feedback.lazy import lazy_names

    # Each child imports this package: it needs neither SQLAlchemy nor pydantic.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "consumer.handlers.dead_letters.dead_letter": ("DeadLetter",),
            "consumer.journal.errors": ("JournalUnavailable", "JournalVersionError"),
            "consumer.journal.schema": ("migrate",),
            "feedback.settings.settings": ("Settings",),
        },
    )

__all__ = [
    "Backoff",
    "Custom",
    "DeadLetter",
    "EffectRefused",
    "Exponential",
    "Fixed",
    "HandlerDefinitionError",
    "Happened",
    "Immediately",
    "InDoubt",
    "InvalidMessage",
    "JournalUnavailable",
    "JournalVersionError",
    "Lifespan",
    "LifespanError",
    "NotAvailable",
    "OncewardError",
    "Rejected",
    "Request",
    "RetryPolicy",
    "Settings",
    "SettingsError",
    "Tiers",
    "Uniform",
    "Unknown",
    "Voided",
    "handler",
    "lifespan",
    "migrate",
]
