"""The real broker, an audit's settings, and the snapshot's Parquet as plain rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession

from feedback.settings.settings import Settings
from tests import offsets
from tests.stack import Servers

Append = Callable[..., int]
Commit = Callable[..., None]
MakeSettings = Callable[..., Settings]
Rows = Callable[[Path], list[dict[str, object]]]


@pytest.fixture
def append(servers: Servers) -> Iterator[Append]:
    """Yield a function that appends one record and returns its offset."""
    producer = KafkaProducer(bootstrap_servers=servers.kafka)

    def one(
        topic: str,
        value: bytes | None = b"{}",
        *,
        partition: int = 0,
        key: bytes | None = None,
        headers: Sequence[tuple[str, bytes]] = (),
        timestamp_ms: int | None = None,
    ) -> int:
        stored = producer.send(
            topic,
            key=key,
            value=value,
            headers=list(headers),
            partition=partition,
            timestamp_ms=timestamp_ms,
        ).get(timeout=60)
        return int(stored.offset)

    yield one
    producer.close()


@pytest.fixture
def admin(servers: Servers) -> Iterator[KafkaAdminClient]:
    """Yield an administrator of the broker."""
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as client:
        yield client


@pytest.fixture
def commit(admin: KafkaAdminClient, group: str) -> Commit:
    """Return a function that commits an offset, for the test's group unless told otherwise."""

    def one(topic: str, offset: int, *, partition: int = 0, of: str = group) -> None:
        offsets.commit(admin, of, TopicPartition(topic, partition), offset)

    return one


@pytest.fixture
def make_settings(
    servers: Servers, group: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> MakeSettings:
    """Return a factory `make_settings(*topics, journal="sqlite:///…")`."""
    for name in servers.settings():
        # The environment would win over what a test asks for.
        monkeypatch.delenv(name, raising=False)

    def make(*topics: str, journal: str = "sqlite:///none.db") -> Settings:
        return Settings.model_validate(
            {
                "kafka": {"bootstrap_servers": servers.kafka, "group": group},
                "journal": {"url": journal},
                "audit": {"topics": topics, "output": str(tmp_path / "audit")},
            }
        )

    return make


@pytest.fixture
def rows(spark: SparkSession) -> Rows:
    """Return a function that reads a folder of Parquet as dicts."""

    def read(folder: Path) -> list[dict[str, object]]:
        return [row.asDict() for row in spark.read.parquet(str(folder)).collect()]

    return read
