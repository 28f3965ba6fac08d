"""The outbox: requests that wait in the user's own database until Kafka has them.

```
client.send(..., connection=) ─▶ row, in the caller's transaction ─ commit ─▶ relay
client.send(..., using=) ─▶ the same, in a transaction of Django's
Client(outbox=url).send ─ Kafka fails ─▶ row, in its own transaction ─▶ relay
relay: lane taken ─▶ PENDING, payload, deadline (Redis) ─▶ Kafka ─▶ row marked, lane let go
```

- `writing`: a row within the caller's transaction; `django_writing`: within one of Django's.
  `row_insert`: their statement; `driver_transaction`: whether there is a transaction.
- `fallback`: a row when Kafka fails; `row_writer` writes it in a thread; `circuit`: whether to ask
  a server again that was away.
- `tables`, `schema`: the tables, and their versions; `sql_texts`: the same for Django's migration,
  which is `onceward.django`. `row`: a request as a row. `faults`, `errors`.
- `relay`: the loop; `outbox_table` its rows and lanes, by `lane_statements`. `row_pending` writes
  PENDING, `relay_batch` sends a batch, `cooldown` remembers topics that are away, `change_listener`
  wakes it, `metrics` counts.
- `parked`: parked rows for a person; `outbox_commands`, one room up.

| the process that dies, and when | the state then | the next step |
|---|---|---|
| the caller, before its commit | nothing anywhere | nothing: it was never asked for |
| the caller, committed | a row that waits | a relay sends it |
| a relay, with lanes taken | rows wait, leases run | after `lease_s` another relay takes them |
| a relay, PENDING written | the same, and a PENDING | relay and resender send it, under one id |
| a relay, Kafka has it, not marked | the same, and a record | sent again, the journal answers it |
| a relay, marked | the row is SENT | pruned after `keep_s` |

Each call of the tables raises `OutboxUnavailable` where the database does not answer, and
`OutboxVersionError` where its tables are of another version.

Decisions. Redis away: the relay waits, since no resender looks after a request that Redis does not
know. Kafka away: it waits. A request that Kafka can never take is parked, and later requests of its
key go on, as they do after a failure. The handle of a send with `connection=` shows UNKNOWN until
the relay has sent it. The fallback preserves no order between requests that Kafka took and those in
the outbox.
"""

from producer_client.outbox.errors import (
    NotCommitted,
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
    "NotCommitted",
    "OutboxForbidden",
    "OutboxMigrated",
    "OutboxUnavailable",
    "OutboxVersionError",
    "RowRefused",
    "create",
    "metadata",
    "migrate",
]
