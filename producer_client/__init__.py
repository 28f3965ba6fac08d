"""The producer's room: send a request, follow it, resend it.

A request flows: `submission` (check, encode, name) → PENDING in Redis (`feedback.redis.store`) →
Kafka (`feedback.kafka`) → a wait listens for its events and resends when `resending` decides so.

- `client`: the user's `Client` and `Handle`; `async_client`: the same for asyncio.
- `send_flow`: one send and one resend; `batches`: many of them. Both are coroutines, written once.
  `send_rules`: the decisions of them; pure.
- For threads: `sync_bridge` runs these coroutines, over the calls of `sending`; `waiter`, with
  `timed_reads`.
- For asyncio: `async_waiter`, and `async_kafka`, whose threads wait for Kafka in a task's
  stead.
- `wait_rules`: decides when a wait resends, and when it is over; pure.
- `submission`: a request to send, made ready, and the result of its sending.
- `resending`: decides when a waiting client or the resender sends again; pure.
- `owner`: the process that a client belongs to. `under_way`: its sends that closing waits for;
  `sent_before`: those that it remembers in case Redis forgets.
- `commands`, `outbox_commands`: `onceward-client`; `jsonl` reads its lines, `audited` those of an
  audit, and `watching` waits for what others send again.
- `outbox/`: requests written in the caller's own transaction, or after Kafka failed to take them.
  They stay there until a relay has sent them.

The front door: `http/`, an extra; `http_commands` starts it.

The resender: `resender` takes the due requests (`feedback.redis.deadlines`), `plan` decides by
`resending`, `lanes` separate the topics, `resends` sends one batch again with the payloads that
`payloads` finds. `lost_scan` looks for dead workers' requests in between;
`record_search` looks in Kafka for those that a Redis brought back. `service` is the process around
the resender and the relay.

Not obvious: a send that fails for certain removes its PENDING again, so that nobody waits for a
request that was never sent. A send of unknown outcome leaves it, because the request may yet run. A
resend never removes anything. A cancelled send is taken back, or stays PENDING.
"""

from typing import TYPE_CHECKING

from feedback.errors import (
    InvalidMessage,
    InvalidValue,
    NotAvailable,
    NotSent,
    OncewardError,
    PayloadMismatch,
    RedisUnavailable,
    SendUnknown,
    SettingsError,
    WaitTimeout,
)
from feedback.status import State
from producer_client.owner import ClientClosed, ClientForked

if TYPE_CHECKING:
    from feedback.records.schema_faults import SchemaError
    from feedback.settings.settings import Settings
    from feedback.statuses import Status
    from producer_client import outbox
    from producer_client.async_client import AsyncClient, AsyncHandle
    from producer_client.client import Client, Handle
    from producer_client.outbox.errors import (
        NotCommitted,
        NoTransaction,
        OutboxForbidden,
        OutboxUnavailable,
        OutboxVersionError,
        RowRefused,
    )
    from producer_client.submission import SendResult, Submission
else:
    from feedback.lazy import lazy_names

    # A program that names an error or uses one client does not load the Kafka library, SQLAlchemy
    # or asyncio of the others.
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "feedback.records.schema_faults": ("SchemaError",),
            "feedback.settings.settings": ("Settings",),
            "feedback.statuses": ("Status",),
            "producer_client": ("outbox",),
            "producer_client.async_client": ("AsyncClient", "AsyncHandle"),
            "producer_client.client": ("Client", "Handle"),
            "producer_client.outbox.errors": (
                "NoTransaction",
                "NotCommitted",
                "OutboxForbidden",
                "OutboxUnavailable",
                "OutboxVersionError",
                "RowRefused",
            ),
            "producer_client.submission": ("SendResult", "Submission"),
        },
    )

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "Client",
    "ClientClosed",
    "ClientForked",
    "Handle",
    "InvalidMessage",
    "InvalidValue",
    "NoTransaction",
    "NotAvailable",
    "NotCommitted",
    "NotSent",
    "OncewardError",
    "OutboxForbidden",
    "OutboxUnavailable",
    "OutboxVersionError",
    "PayloadMismatch",
    "RedisUnavailable",
    "RowRefused",
    "SchemaError",
    "SendResult",
    "SendUnknown",
    "Settings",
    "SettingsError",
    "State",
    "Status",
    "Submission",
    "WaitTimeout",
    "outbox",
]
