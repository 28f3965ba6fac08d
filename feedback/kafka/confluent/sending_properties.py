"""How librdkafka sends a client's records, as its properties. Pure."""

from __future__ import annotations

from typing import Any

from feedback.kafka.confluent.producer_limits import (
    ANY_SIZE_BYTES,
    ANY_SIZE_KIB,
    BATCH_BYTES,
    OWN_PAUSE_MS,
)
from feedback.kafka.sending import SendingPlan

_IDLE_MS = 540_000
# librdkafka's limits of its own times.
_LEAST_SETUP_MS, _LEAST_SOCKET_MS, _MOST_SOCKET_MS = 1000, 100, 300_000


def sending_properties(plan: SendingPlan) -> dict[str, Any]:
    """Return the properties of a producer that sends so."""
    durability, timeout_ms = plan.durability, max(1, int(plan.send_timeout_s * 1000))
    answer_ms = min(max(_LEAST_SOCKET_MS, timeout_ms - 100), _MOST_SOCKET_MS)
    # Without numbers by which a broker knows a record again, another try makes another record.
    tries: dict[str, Any] = {
        "retries": 0,
        "retry.backoff.ms": OWN_PAUSE_MS,
        "retry.backoff.max.ms": OWN_PAUSE_MS,
    }
    return {
        "acks": durability.acks,
        "enable.idempotence": durability.is_idempotent,
        "max.in.flight.requests.per.connection": durability.in_flight,
        **({} if durability.is_idempotent else tries),
        "message.timeout.ms": timeout_ms,
        "request.timeout.ms": answer_ms,
        "socket.timeout.ms": answer_ms,
        "socket.connection.setup.timeout.ms": max(_LEAST_SETUP_MS, timeout_ms),
        "socket.nagle.disable": True,
        "connections.max.idle.ms": _IDLE_MS,
        "linger.ms": min(durability.linger_ms, timeout_ms / 2),
        "batch.size": BATCH_BYTES,
        # Callers bound the records in flight, and each one's size is looked at before.
        "message.max.bytes": ANY_SIZE_BYTES,
        "queue.buffering.max.messages": 0,
        "queue.buffering.max.kbytes": ANY_SIZE_KIB,
        # As other clients choose it, by the same hash.
        "partitioner": "murmur2_random",
        "allow.auto.create.topics": False,
        "enable.metrics.push": False,
    }
