"""What one test's workers and clients share: servers, group, topics, journal, and how to look."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic, OffsetSpec
from sqlalchemy import Engine, NullPool, create_engine, select, text
from sqlalchemy.engine import RowMapping

from consumer.journal.tables import request, run
from feedback.settings.settings import load
from feedback.status import State
from feedback.statuses import Status
from producer_client import Client
from tests import offsets
from tests.consumer.foreign import Headers, Sent
from tests.consumer.gate import Gate
from tests.consumer.running import RunningWorker
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.kit.settings import write_settings
from tests.stack import Servers

HANDLERS = "tests.consumer.worker_handlers"
# As many slots as a worker has by default; a second child is a second interpreter to start.
ONE_CHILD = {"processes": 1, "slots_per_process": 2}
TWO_CHILDREN = {"processes": 2, "slots_per_process": 1}
FINAL_LIMIT_S = 60.0


class Stage:
    """One group on real servers; workers, client and producer are made when asked for.

    Args:
        servers: Kafka and Redis.
        journal_url: an empty database.
        folder: for settings, logs and the file of runs.
        handlers: those of `worker_handlers` that get a topic.
        partitions: how many each topic has.
        replicas: on how many brokers.
        settings: changes to the sections of the settings file.
    """

    def __init__(
        self,
        *,
        servers: Servers,
        journal_url: str,
        folder: Path,
        handlers: Sequence[str] = ("work",),
        partitions: int = 2,
        replicas: int = 1,
        **settings: Mapping[str, Any],
    ) -> None:
        self.group = f"group-{uuid.uuid4().hex}"
        self.topics = {name: f"{name}-{uuid.uuid4().hex}" for name in handlers}
        self.journal_url = journal_url
        self.partitions = partitions
        self._servers = servers
        self._folder = folder
        self._settings = settings
        self.workers: list[RunningWorker] = []
        self._ends = ExitStack()
        self._gates: list[Gate] = []
        self._runs = folder / "runs.jsonl"
        self._client: Client | None = None
        self._producer: Any = None
        migrated(journal_url)
        with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
            names = self.topics.values()
            admin.create_topics([NewTopic(name, partitions, replicas) for name in names])
            admin.wait_for_topics(list(self.topics.values()))

    def close(self) -> None:
        """End everything that was started, the gates first."""
        self.open_gates()
        self._ends.close()
        for worker in self.workers:
            worker.kill()

    def open_gates(self) -> None:
        """Let go all that waits; after each test, where a worker has more of them to do."""
        for gate in self._gates:
            gate.open()

    # making --------------------------------------------------------------------------------

    def config(self, **changes: Mapping[str, Any]) -> Path:
        """Write a settings file and return its path; `changes` come over the stage's own."""
        sections: dict[str, dict[str, Any]] = {
            "kafka": {
                "bootstrap_servers": self._servers.kafka,
                "group": self.group,
                "session_timeout_s": 6,
            },
            "redis": {"url": self._servers.redis, "heartbeat_ttl_s": 2},
            "journal": {"url": self.journal_url, "lease_s": 2},
            "worker": {"handlers": [HANDLERS], "drain_timeout_s": 15},
            "client": {"poll_interval_s": 0.5},
        }
        if not _names_slots(self._settings) and not _names_slots(changes):
            sections["worker"] |= ONE_CHILD
        return write_settings(self._folder, sections, self._settings, changes)

    def start(self, **changes: Mapping[str, Any]) -> RunningWorker:
        """Start a worker; it may not read yet when this returns."""
        worker = self.launch_with(**changes)
        worker.told("worker.started")
        return worker

    def launch(self, config: Path) -> RunningWorker:
        """Start a worker with these settings and wait for nothing."""
        return self.start_as({}, config=config)

    def start_as(
        self, variables: Mapping[str, str], *, config: Path | None = None
    ) -> RunningWorker:
        """Start a worker with more environment variables and wait for nothing."""
        log = self._folder / f"worker-{len(self.workers)}-{uuid.uuid4().hex}.log"
        settings = {**self.variables(), **variables}
        worker = RunningWorker(config or self.config(), log=log, settings=settings)
        self.workers.append(worker)
        return worker

    def launch_with(self, **changes: Mapping[str, Any]) -> RunningWorker:
        """Start a worker with changed settings and wait for nothing."""
        return self.launch(self.config(**changes))

    def variables(self) -> dict[str, str]:
        """Return what `worker_handlers` reads from its environment."""
        return {"TEST_TOPICS": json.dumps(self.topics), "TEST_RUNS": str(self._runs)}

    @property
    def client(self) -> Client:
        """The stage's client."""
        if self._client is None:
            self._client = self._ends.enter_context(Client(load(self.config())))
        return self._client

    def gate(self) -> Gate:
        """Return a closed gate."""
        self._gates.append(Gate(self._folder / f"gate-{uuid.uuid4().hex}"))
        return self._gates[-1]

    def produce(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        headers: Headers | None = None,
        handler: str = "work",
        partition: int | None = None,
    ) -> Sent:
        """Send a record as a program does that knows nothing of Onceward."""
        stored = self._post(handler, key, value, headers, partition).get(timeout=60)
        return Sent(stored.topic, stored.partition, stored.offset, stored.timestamp)

    def post(
        self, value: bytes, *, headers: Headers, handler: str = "work", key: bytes | None = None
    ) -> None:
        """Send one of many records, and do not wait for Kafka."""
        self._post(handler, key, value, headers, None)

    def flush(self) -> None:
        """Wait until Kafka has what was posted."""
        self._producer.flush()

    def _post(
        self,
        handler: str,
        key: bytes | None,
        value: bytes | None,
        headers: Headers | None,
        partition: int | None,
    ) -> Any:
        if self._producer is None:
            self._producer = KafkaProducer(
                bootstrap_servers=self._servers.kafka, max_request_size=10_000_000
            )
            self._ends.callback(self._producer.close)
        return self._producer.send(
            self.topics[handler], key=key, value=value, headers=headers or [], partition=partition
        )

    # looking -------------------------------------------------------------------------------

    def final(self, request_id: str, *, timeout_s: float = FINAL_LIMIT_S) -> Status:
        """Return how a request ended, resending nothing."""
        return self.client.wait(request_id, timeout_s=timeout_s, resend=False)

    def seen(self, request_id: str, state: State) -> Status:
        """Return the first status in this state, waiting for it."""
        found: list[Status] = []

        def is_there() -> bool:
            found[:] = [self.client.status(request_id)]
            return found[0].state is state

        eventually(is_there, timeout_s=FINAL_LIMIT_S, what=f"{request_id} {state}")
        return found[0]

    def runs(
        self, request_id: str | None = None, *, at: str | None = "run"
    ) -> list[dict[str, Any]]:
        """Return what the handlers counted, in order: of one request, or of all; at any point of
        their runs, if `at` is None."""
        if not self._runs.exists():
            return []
        lines = [json.loads(line) for line in self._runs.read_text().splitlines()]
        return [
            line
            for line in lines
            if at in (None, line["at"]) and request_id in (None, line["request_id"])
        ]

    def row(self, request_id: str) -> RowMapping | None:
        """Return a request's row of the journal."""
        wanted = select(request).where(request.c.request_id == request_id)
        rows = self._read(wanted)
        return rows[0] if rows else None

    def history(self, request_id: str) -> list[RowMapping]:
        """Return the earlier runs of a request that the journal keeps, in order."""
        return self._read(select(run).where(run.c.request_id == request_id).order_by(run.c.id))

    @cached_property
    def _engine(self) -> Engine:
        # Between two questions it holds no connection: the next test empties the database.
        return create_engine(self.journal_url, poolclass=NullPool)

    def _read(self, wanted: Any) -> list[RowMapping]:
        with self._engine.connect() as connection:
            return list(connection.execute(wanted).mappings())

    def execute(self, statement: str) -> list[Any]:
        """Run SQL on the journal's database, commit it, and return the rows."""
        with self._engine.begin() as connection:
            result = connection.execute(text(statement))
            return list(result.all()) if result.returns_rows else []

    def committed(self, topic: str, partition: int, *, of: str | None = None) -> int:
        """Return the offset that a group would read next; 0 when it has read nothing.

        Args:
            of: the group; the workers' own without it.
        """
        with KafkaAdminClient(bootstrap_servers=self._servers.kafka) as admin:
            place = TopicPartition(topic, partition)
            return max(0, offsets.committed(admin, of or self.group, place))

    def end(self, topic: str, partition: int) -> int:
        """Return the offset that the next record of a partition gets."""
        place = TopicPartition(topic, partition)
        with KafkaAdminClient(bootstrap_servers=self._servers.kafka) as admin:
            found = admin.list_partition_offsets({place: OffsetSpec.LATEST})
        return int(found[place].offset)

    def members(self) -> dict[str, int]:
        """Return the members of the group, each with the number of partitions it has."""
        with KafkaAdminClient(bootstrap_servers=self._servers.kafka) as admin:
            found = admin.describe_groups([self.group])[self.group]
        if found["group_state"] != "Stable":
            return {}
        return {one["member_id"]: _assigned(one) for one in found["members"]}


def _names_slots(sections: Mapping[str, Mapping[str, Any]]) -> bool:
    return bool({*ONE_CHILD} & {*sections.get("worker", {})})


def _assigned(member: Mapping[str, Any]) -> int:
    assignment = member["member_assignment"]
    if not assignment:
        return 0
    return sum(len(one["partitions"]) for one in assignment["assigned_partitions"])


@contextmanager
def open_stage(
    *, servers: Servers, journal_url: str, folder: Path, **facts: Any
) -> Iterator[Stage]:
    """Yield a stage whose processes end with the block; see `Stage` for the facts."""
    with pytest.MonkeyPatch.context() as patch:
        # Else the servers that the environment names would win over the stage's own.
        for name in ("KAFKA__BOOTSTRAP_SERVERS", "REDIS__URL", "JOURNAL__URL"):
            patch.delenv(f"ONCEWARD_{name}", raising=False)
        stage = Stage(servers=servers, journal_url=journal_url, folder=folder, **facts)
        try:
            yield stage
        finally:
            stage.close()
