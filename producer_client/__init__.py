"""The producer's room: send a request, follow it, resend it.

A request flows: `submission` (check, encode, name) → PENDING in Redis (`feedback.redis.store`) →
Kafka (`feedback.kafka`) → a wait listens for its events and resends when `resending` decides so.

- `commands/`: `onceward-client`, and its services as processes.
- `http/`: the front door, an extra.
- `client/`: the clients that users hold, and their waits.
- `resender/`: requests that are lost, overdue or silent are sent again.
- `outbox/`: requests written in the caller's own transaction, or after Kafka failed to take them.
  They stay there until a relay has sent them.
- `sending/`: one send, one resend, and many of them.
- `submission`: a request to send, made ready, and the result of its sending.
- `owner`: the process that a client belongs to.

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
    from producer_client.client.async_client import AsyncClient, AsyncHandle
    from producer_client.client.client import Client, Handle
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
            "producer_client.client.async_client": ("AsyncClient", "AsyncHandle"),
            "producer_client.client.client": ("Client", "Handle"),
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
