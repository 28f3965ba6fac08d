"""Records that are written within transactions, as a foreign program does."""

from __future__ import annotations

import uuid
from typing import Any, Self

from kafka import KafkaProducer


class Transactions:
    """A producer with a transactional id of its own; every call is in Kafka when it returns.

    Args:
        bootstrap_servers: of a broker.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer: Any = KafkaProducer(
            bootstrap_servers=bootstrap_servers, transactional_id=f"t-{uuid.uuid4().hex}"
        )
        self._producer.init_transactions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._producer.close()

    def write(self, topic: str, *values: bytes, **given: Any) -> None:
        """Begin a transaction and write these; it stays open."""
        self._producer.begin_transaction()
        self.go_on(topic, *values, **given)

    def go_on(self, topic: str, *values: bytes, **given: Any) -> None:
        """Write these within the transaction that is open."""
        for value in values:
            self._producer.send(topic, value, **{"partition": 0} | given)
        self._producer.flush()

    def commit(self) -> None:
        """End it: all of it is there."""
        self._producer.commit_transaction()

    def abort(self) -> None:
        """End it: nothing of it ever was."""
        self._producer.abort_transaction()
