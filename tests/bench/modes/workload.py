"""The published records: operations on cards, all in one partition."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import count, islice
from uuid import UUID

from kafka import KafkaProducer

from feedback.records.envelope import REQUEST_ID

IN_FLIGHT = 10_000
ACKNOWLEDGED_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Operation:
    """A record: its key is the operation's id, which also names the request."""

    operation_id: str
    value: bytes


def operations(cycle: int, *, seed: int) -> Iterator[Operation]:
    """Yield operations without end, the same for the same seed but for their dates.

    Args:
        cycle: `additionalData` is the operation's counter modulo this, as text.
    """
    chance = random.Random(seed)
    for counter in count():
        operation_id = str(_uuid4(chance))
        value = {
            "operationId": operation_id,
            "operationDate": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "cardNumber": f"{chance.randrange(10**16):016}",
            "price": round(chance.uniform(50, 100), 2),
            "terminalId": str(_uuid4(chance)),
            "additionalData": str(counter % cycle),
        }
        yield Operation(operation_id, json.dumps(value).encode())


def fill(bootstrap_servers: str, topic: str, records: int, *, cycle: int, seed: int) -> None:
    """Send operations, a bounded number of them at a time, and return when Kafka has them all.

    Raises:
        KafkaError: one was not acknowledged.
    """
    made = operations(cycle, seed=seed)
    with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=20) as producer:
        for first in range(0, records, IN_FLIGHT):
            sent = [
                producer.send(
                    topic,
                    key=one.operation_id.encode(),
                    value=one.value,
                    headers=[(REQUEST_ID, one.operation_id.encode())],
                )
                for one in islice(made, min(IN_FLIGHT, records - first))
            ]
            for future in sent:
                future.get(timeout=ACKNOWLEDGED_WITHIN_S)


def _uuid4(chance: random.Random) -> UUID:
    return UUID(int=chance.getrandbits(128), version=4)
