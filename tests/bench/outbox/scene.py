"""One case's database, group and topic, and relays as processes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from kafka import TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic, OffsetSpec
from sqlalchemy import Engine, create_engine, func, select

from feedback.kafka.scan import KafkaScan
from feedback.records.envelope import decode_headers
from feedback.settings.settings import KafkaSection, Settings, load
from producer_client import Client
from producer_client.outbox import migrate
from producer_client.outbox.tables import RowState, row
from tests import offsets
from tests.bench.duplicated_handlers import RUNS_VARIABLE
from tests.bench.launching import running
from tests.bench.systems import onceward
from tests.eventually import eventually
from tests.kit.settings import environment
from tests.stack import Servers

PARTITIONS = 4
PAGE = 1000
HANDLERS = "tests.bench.duplicated_handlers"
WORK_LIMIT_S = 300.0
# What a worker has read takes no longer.
BUFFER_LIMIT_S = 30.0


@dataclass(frozen=True, slots=True)
class Scene:
    """What a case works with."""

    servers: Servers
    database: str
    url: str
    folder: Path
    group: str
    topic: str
    engine: Engine

    @property
    def settings(self) -> Settings:
        """The settings of its clients."""
        return load(
            None,
            kafka={"bootstrap_servers": self.servers.kafka, "group": self.group},
            redis={"url": self.servers.redis},
            client={"topic": self.topic},
            outbox={"url": self.url},
        )

    def write(self, client: Client, count: int, *, keys: int = 1000) -> None:
        """Write so many requests, a thousand in a transaction."""
        for begin in range(0, count, PAGE):
            with self.engine.begin() as connection:
                for number in range(begin, min(begin + PAGE, count)):
                    client.send(
                        b"%0200d" % number,
                        key=b"%d" % (number % keys),
                        request_id=f"r{number:08}",
                        connection=connection,
                    )

    def sent(self) -> int:
        """Return how many rows are marked."""
        return self._count(RowState.SENT)

    def waiting(self) -> int:
        """Return how many rows wait."""
        return self._count(RowState.WAITING)

    def _count(self, state: RowState) -> int:
        wanted = select(func.count()).select_from(row).where(row.c.state == state)
        with self.engine.connect() as connection:
            return int(connection.execute(wanted).scalar_one())

    def in_topic(self) -> list[str]:
        """Return the request ids of all records."""
        section = KafkaSection(bootstrap_servers=self.servers.kafka)
        with KafkaScan(section, committed_only=False) as scan:
            return [
                decode_headers(one).request_id
                for page in scan.pages(scan.spans([self.topic]))
                for one in page.records
            ]

    def ran(self, requests: int) -> Counter[str]:
        """Let a worker read all records of so many requests, and return how often each ran."""
        runs = self.folder / "runs"
        url = f"sqlite:///{self.folder / 'journal.db'}"
        environ = {
            **onceward.environment(self.servers, url, topic=self.topic, handlers=HANDLERS),
            "ONCEWARD_KAFKA__GROUP": self.group,
            RUNS_VARIABLE: str(runs),
        }
        onceward.migrate(environ, self.folder)
        with running(onceward.WORKER, environ=environ, log=self.folder / "worker.log"):
            eventually(lambda: self._unread() == 0, timeout_s=WORK_LIMIT_S, interval_s=0.5)
            with suppress(TimeoutError):  # what is missing then is what this is about
                eventually(
                    lambda: len(set(runs.read_text().split())) == requests,
                    timeout_s=BUFFER_LIMIT_S,
                    interval_s=0.2,
                )
        return Counter(runs.read_text().split())

    def _unread(self) -> int:
        places = [TopicPartition(self.topic, number) for number in range(PARTITIONS)]
        with KafkaAdminClient(bootstrap_servers=self.servers.kafka) as admin:
            ends = admin.list_partition_offsets(dict.fromkeys(places, OffsetSpec.LATEST))
            return sum(
                ends[place].offset - max(0, offsets.committed(admin, self.group, place))
                for place in places
            )

    @contextmanager
    def relay(self, **changes: str) -> Iterator[subprocess.Popen[bytes]]:
        """Yield a relay process; it is gone after the block."""
        told = environment(
            ONCEWARD_KAFKA__BOOTSTRAP_SERVERS=self.servers.kafka,
            ONCEWARD_KAFKA__GROUP=self.group,
            ONCEWARD_REDIS__URL=self.servers.redis,
            ONCEWARD_OUTBOX__URL=self.url,
        )
        command = (sys.executable, "-m", "producer_client", "relay")
        with running(command, environ=told | changes, log=self.folder / "relay.log") as process:
            yield process


@contextmanager
def open_scene(servers: Servers, database: str, *, partitions: int = PARTITIONS) -> Iterator[Scene]:
    """Yield a scene on an empty database."""
    with (
        tempfile.TemporaryDirectory() as name,
        onceward.fresh_journal(servers, database, Path(name)) as url,
    ):
        migrate(url)
        topic = f"outbox-{uuid.uuid4().hex}"
        with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
            configs = {"message.timestamp.type": "LogAppendTime"}
            admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)])
            admin.wait_for_topics([topic])
        engine = create_engine(url)
        try:
            yield Scene(servers, database, url, Path(name), f"g-{uuid.uuid4().hex}", topic, engine)
        finally:
            engine.dispose()
