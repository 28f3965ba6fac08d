"""The producer's room: send a request, follow it, resend it.

A request flows: `submission` (checked, encoded, named) → PENDING in Redis (`feedback.redis.store`)
→ Kafka (`feedback.kafka.sender`) → a wait hears its events and resends by `resending`'s decision.

- `client`: what a user holds, the `Client` and its `Handle`; `async_client`: the same for asyncio.
- `way`: the way of a send and of a resend, written once for both `worlds`; `flights`: of many.
- For threads: `sending`, `sending_many`, `following`, with `looking`.
- For asyncio: `async_sending_many`, `async_following`, and `async_kafka`, whose threads wait
  for Kafka in a task's stead.
- `pursuit`: when a wait resends, and when it is over; pure.
- `submission`: what is asked to be sent, made ready; what became of it.
- `resending`: when a waiting client, and when the resender, sends again; pure.
- `owner`: which process a client belongs to.
- `commands`, `outbox_commands`: `onceward-client`; `lines` reads what it sends.
- `outbox/`: requests written into the caller's own transaction, and what Kafka failed to take,
  until a relay has sent them.

The resender: `resender` takes what is due (`feedback.redis.deadlines`), `plan` decides by
`resending`, `lanes` keep topics apart, `resends` sends one batch again with what `payloads` finds,
`lost_scan` looks for dead workers' requests in between; `service` is the process around it,
and around the relay.

Not obvious: a send that fails for certain removes its PENDING again, so that nobody waits for what
was never sent; one of unknown outcome leaves it, because the request may yet run. A resend never
removes anything. A cancelled send is one or the other: taken back, or PENDING.
"""

from feedback.errors import NotSent, PayloadMismatch, SendUnknown, WaitTimeout
from feedback.status import State
from feedback.statuses import Status
from producer_client.async_client import AsyncClient, AsyncHandle
from producer_client.client import Client, Handle
from producer_client.owner import ClientClosed, ClientForked
from producer_client.submission import SendResult, Submission

__all__ = [
    "AsyncClient",
    "AsyncHandle",
    "Client",
    "ClientClosed",
    "ClientForked",
    "Handle",
    "NotSent",
    "PayloadMismatch",
    "SendResult",
    "SendUnknown",
    "State",
    "Status",
    "Submission",
    "WaitTimeout",
]
