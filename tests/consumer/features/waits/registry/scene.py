"""A group with wait topics, written to by the tests themselves, and registries as processes."""

from __future__ import annotations

import subprocess
import sys
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from kafka import KafkaProducer, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient, NewTopic
from sqlalchemy import NullPool, create_engine, text

from consumer.features.waits.wait_record import WaitRecord, encode_wait, tombstone, wait_topic
from feedback.clock import epoch_ms
from feedback.kafka.outgoing import Outgoing
from feedback.kafka.scan import KafkaScan
from feedback.kafka.writer import KafkaWriter
from feedback.records.dead_letter_topics import dead_letter_topic
from feedback.records.envelope import Envelope, Record, encode_headers
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import KafkaSection, RedisSection
from tests import preloaded
from tests.consumer.running import RunningWorker
from tests.eventually import eventually
from tests.kit.settings import environment, write_settings
from tests.stack import Servers

COMMAND = (sys.executable, "-m", "consumer.dlq", "expire")
CAUGHT_UP_S = 60.0
# A holder whose heartbeat is missing for that long is gone.
HEARTBEAT_TTL_S = 1.0
# The tests' own heartbeats: one lives until it is ended, however slow the machine is.
BEAT_TTL_S = 3600.0
GONE = "host-1-gone"


class Scene:
    """One group; see the module.

    Args:
        servers: Kafka and Redis.
        database_url: migrated.
        folder: for settings and logs.
        partitions: of the topic and its wait topic.
        settings: changes to the sections of the settings file.
    """

    def __init__(
        self,
        *,
        servers: Servers,
        database_url: str,
        folder: Path,
        partitions: int = 2,
        **settings: Mapping[str, Any],
    ) -> None:
        self.group = f"group-{uuid.uuid4().hex}"
        self.topic = f"topic-{uuid.uuid4().hex}"
        self.database_url = database_url
        self.partitions = partitions
        self._servers = servers
        self._folder = folder
        self._settings = settings
        self._engine = create_engine(database_url, poolclass=NullPool)
        self._ends = ExitStack()
        self.registries: list[RunningWorker] = []
        kafka = KafkaSection(bootstrap_servers=servers.kafka, group=self.group)
        self._writer = KafkaWriter(kafka, timeout_s=30.0)
        self._scan = KafkaScan(kafka, committed_only=False)
        self._ends.callback(self._writer.close)
        self._ends.callback(self._scan.close)
        self.store = StatusStore(
            connect(RedisSection(url=servers.redis)),
            self.group,
            RedisSection(url=servers.redis, heartbeat_ttl_s=BEAT_TTL_S),
        )
        self._ends.callback(self.store.close)
        self.create(self.topic)
        self.create(self.wait_topic, configs={"cleanup.policy": "compact"})

    @property
    def wait_topic(self) -> str:
        """Where its requests wait."""
        return wait_topic(self.topic, self.group)

    @property
    def dlq(self) -> str:
        """Where its dead letters are."""
        return dead_letter_topic(self.topic, self.group)

    def close(self) -> None:
        """End everything that was started."""
        for one in self.registries:
            one.kill()
        self._ends.close()
        self._engine.dispose()

    # writing --------------------------------------------------------------------------------

    def create(
        self, name: str, *, partitions: int = 0, configs: Mapping[str, str] | None = None
    ) -> None:
        """Make a topic; by default with as many partitions as all have."""
        new = NewTopic(name, partitions or self.partitions, 1, topic_configs=dict(configs or {}))
        with KafkaAdminClient(bootstrap_servers=self._servers.kafka) as admin:
            admin.create_topics([new])
            admin.wait_for_topics([name])

    def configure(self, name: str, configs: Mapping[str, str]) -> None:
        """Change settings of a topic."""
        with KafkaAdminClient(bootstrap_servers=self._servers.kafka) as admin:
            admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, name, dict(configs))])

    def forget_before(self, name: str, offset: int) -> None:
        """Have Kafka delete what is older in partition 0, as retention does."""
        self.configure(name, {"cleanup.policy": "compact,delete"})
        with KafkaAdminClient(bootstrap_servers=self._servers.kafka) as admin:
            admin.delete_records({TopicPartition(name, 0): offset})

    def wait(
        self,
        request_id: str,
        *,
        expires_in_s: float = -1.0,
        holder: str | None = GONE,
        generation: int = 1,
        offset: int = 7,
        partition: int = 0,
        key: bytes | None = b"card-1",
        value: bytes | None = b'{"amount": 5}',
        headers: Sequence[tuple[str, bytes]] = (),
    ) -> WaitRecord:
        """Return an unfinished request; one second past its expiry by default."""
        own = encode_headers(Envelope(request_id, 1, None), headers)
        now = epoch_ms()
        record = Record(self.topic, partition, offset, now, key, value, tuple(own))
        return WaitRecord(request_id, generation, holder, now + int(expires_in_s * 1000), record)

    def write(self, waits: Iterable[WaitRecord]) -> None:
        """Write wait records, each into the partition that its request came from."""
        self.send(
            [encode_wait(one, group=self.group, partition=one.record.partition) for one in waits]
        )

    def end(self, request_ids: Iterable[str], *, partition: int = 0) -> None:
        """Write tombstones, as the worker does that has finished these."""
        self.send(
            [
                tombstone(
                    one,
                    topic=self.topic,
                    partition=partition,
                    group=self.group,
                    generation=1,
                    worker=GONE,
                    status="SUCCEEDED",
                )
                for one in request_ids
            ]
        )

    def send(self, records: Sequence[Outgoing]) -> None:
        """Write any records; each was acknowledged when this returns."""
        for at in range(0, len(records), 5000):
            answers = self._writer.write(records[at : at + 5000])
            assert all(one is None for one in answers), next(filter(None, answers))

    def send_at(self, records: Iterable[Outgoing], timestamp_ms: int) -> None:
        """Write records as one does whose clock says so."""
        with KafkaProducer(bootstrap_servers=self._servers.kafka) as producer:
            for topic, partition, key, value, headers in records:
                producer.send(
                    topic, value, key, list(headers), partition=partition, timestamp_ms=timestamp_ms
                ).get(30)

    def beat(self, worker_id: str) -> None:
        """Let a worker be alive until it dies."""
        self.store.beat(worker_id, {})

    def die(self, worker_id: str) -> None:
        """Let a worker be alive no longer."""
        self.store.end_heartbeat(worker_id)

    # looking --------------------------------------------------------------------------------

    def records(self, topic: str) -> list[Record]:
        """Return all that is in a topic, as any plain consumer reads it."""
        pages = self._scan.pages(self._scan.spans([topic]))
        return [record for page in pages for record in page.records]

    def letters(self) -> Counter[str]:
        """Return how many letters there are of each request."""
        return Counter(
            dict(one.headers)["DLQ_REQUEST_ID"].decode() for one in self.records(self.dlq)
        )

    def tombstones(self) -> Counter[str]:
        """Return how many tombstones there are of each request."""
        return Counter(
            (one.key or b"").decode() for one in self.records(self.wait_topic) if one.value is None
        )

    def query(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Return rows of the database, by column."""
        with self._engine.connect() as connection:
            answers = connection.execute(text(sql), parameters)
            return [dict(zip(answers.keys(), row, strict=True)) for row in answers]

    def change(self, sql: str, **parameters: object) -> None:
        """Run a statement and commit."""
        with self._engine.begin() as connection:
            connection.execute(text(sql), parameters)

    def waiting(self) -> set[str]:
        """Return the requests that the table has."""
        rows = self.query(
            'SELECT request_id FROM onceward_wait WHERE "group" = :group', group=self.group
        )
        return {row["request_id"] for row in rows}

    def begun(self) -> set[str]:
        """Return the requests that are on their way to the dead letters."""
        rows = self.query(
            'SELECT request_id FROM onceward_wait_expiry WHERE "group" = :group', group=self.group
        )
        return {row["request_id"] for row in rows}

    def owners(self) -> list[str | None]:
        """Return whose each partition is."""
        rows = self.query(
            'SELECT owner FROM onceward_wait_partition WHERE "group" = :g ORDER BY "partition"',
            g=self.group,
        )
        return [row["owner"] for row in rows]

    def await_owned(self) -> None:
        """Wait until each partition is somebody's."""
        eventually(
            lambda: len(self.owners()) == self.partitions and all(self.owners()),
            timeout_s=CAUGHT_UP_S,
            what="owners",
        )

    def await_waiting(self, expected: set[str]) -> None:
        """Wait until the table has these requests and no others."""
        eventually(lambda: self.waiting() == expected, timeout_s=CAUGHT_UP_S, what="the table")

    def await_past(self, seconds: float) -> None:
        """Wait until what was written just now to expire within this time has."""
        until = epoch_ms() + int(seconds * 1000)
        eventually(lambda: epoch_ms() > until, timeout_s=seconds + 10)

    def await_letters(self, expected: set[str]) -> Counter[str]:
        """Wait until each of these has a letter, and nothing is on its way; return the counts."""
        eventually(
            lambda: set(self.letters()) >= expected and not self.begun(),
            timeout_s=CAUGHT_UP_S,
            interval_s=0.1,
            what="the letters",
        )
        return self.letters()

    # registries -----------------------------------------------------------------------------

    def config(self, **changes: Mapping[str, Any]) -> Path:
        """Write a settings file and return its path."""
        sections: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": self._servers.kafka, "group": self.group},
            "redis": {"url": self._servers.redis, "heartbeat_ttl_s": HEARTBEAT_TTL_S},
            "journal": {"url": self.database_url, "timeout_s": 3},
            "registry": {"lease_s": 2},
        }
        return write_settings(self._folder, sections, self._settings, changes)

    def start(self, *arguments: str, **changes: Mapping[str, Any]) -> RunningWorker:
        """Start a registry, and return when it has begun."""
        log = self._folder / f"registry-{len(self.registries)}-{uuid.uuid4().hex}.log"
        argv = (*COMMAND, *arguments)
        one = RunningWorker(self.config(**changes), log=log, settings={}, argv=argv)
        self.registries.append(one)
        return one

    def once(self, *arguments: str, **changes: Mapping[str, Any]) -> RunningWorker:
        """Run a registry with `--once` to its end."""
        one = self.start("--once", *arguments, **changes)
        one.wait(CAUGHT_UP_S)
        return one

    def dlq_command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run another command of `onceward-dlq` to its end."""
        argv = (*COMMAND[:-1], *arguments, "--config", str(self.config()))
        return preloaded.run(argv, environ=environment(), timeout_s=CAUGHT_UP_S)

    def ends(self, topic: str) -> dict[int, int]:
        """Return where the partitions of a topic end."""
        return {place[1]: span.end for place, span in self._scan.spans([topic]).items()}
