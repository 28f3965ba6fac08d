"""The outbox: requests that wait in the user's own database until Kafka has them.

```
client.send(..., connection=) ─▶ row, in the caller's transaction ─ commit ─▶ relay
Client(outbox=url).send ─ Kafka fails ─▶ row, in its own transaction ─▶ relay
relay: lane taken ─▶ PENDING, payload, deadline (Redis) ─▶ Kafka ─▶ row marked, lane let go
```

- `writing`: a row within somebody's transaction. `fallback`: when Kafka fails; `circuit`: and
  whether it is worth asking.
- `tables`, `schema`: what lies in the database. `row`: a request as a row. `faults`, `errors`.
- `relay`: the loop; `table` its rows and lanes, `telling` PENDING, `shipping` a batch on its way,
  `rests` topics that are away, `waking` what wakes it, `metrics` what it counts.
- `parked`: what a person sees of rows that were set aside; `outbox_commands`, one room up.

| what dies, and when | what is true | what happens next |
|---|---|---|
| the caller, before its commit | nothing anywhere | nothing: it was never asked for |
| the caller, committed | a row that waits | a relay sends it |
| a relay, with lanes taken | rows wait, leases run | after `lease_s` another relay takes them |
| a relay, PENDING told | the same, and a PENDING | relay and resender send it, under one id |
| a relay, Kafka has it, not marked | the same, and a record | sent again, the journal answers it |
| a relay, marked | the row is SENT | pruned after `keep_s` |

Decisions. Redis away: the relay waits, since what Redis does not know no resender looks after.
Kafka away: it waits. What Kafka can never take is parked, and later requests of its key go on, as
they do after a failure. A handle of a send with `connection=` is UNKNOWN until the relay has sent
it. Through the fallback no order is kept between what Kafka took and what went the other way.
"""

from producer_client.outbox.errors import (
    NoTransaction,
    OutboxForbidden,
    OutboxUnavailable,
    OutboxVersionError,
    RowRefused,
)
from producer_client.outbox.schema import OutboxMigrated, create, migrate
from producer_client.outbox.tables import metadata

__all__ = [
    "NoTransaction",
    "OutboxForbidden",
    "OutboxMigrated",
    "OutboxUnavailable",
    "OutboxVersionError",
    "RowRefused",
    "create",
    "metadata",
    "migrate",
]
