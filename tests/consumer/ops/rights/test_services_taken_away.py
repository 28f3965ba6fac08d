"""A resender, a relay or a registry loses a right: it says which, loses nothing, and goes on."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from consumer.features.waits.wait_record import WaitRecord, encode_wait
from consumer.ops.rights.roles import rights_of
from feedback.clock import epoch_ms
from feedback.errors import ExitCode
from feedback.kafka.writer import KafkaWriter
from feedback.records.envelope import Envelope, Record, encode_headers
from feedback.redis.store import StatusStore
from feedback.rights.needed import Role
from feedback.settings.settings import KafkaSection
from feedback.status import State
from onceward.servers.ports import HOST, free_port
from producer_client import Client
from tests.consumer.ops.rights.stage import KINDS, RightsStage, rights_stage
from tests.consumer.ops.rights.test_checked import Atom, atoms, declared
from tests.eventually import eventually
from tests.kit.program import StartedProgram
from tests.producer_client.records import records_of
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")

SAID_WITHIN_S = 60.0
GOES_ON_WITHIN_S = 90.0
RIGHT = "lacks a right"


class Gone(NamedTuple):
    """A right that a service uses at once.

    Args:
        right: how `check` names it, with the stage's own names in braces.
        said: in one line of the log, beside the server's name.
    """

    right: str
    said: str


class Service(ABC):
    """A service with exactly its rights, and work for it."""

    role: Role
    command: tuple[str, ...]

    def __init__(self, stage: RightsStage, client: Client) -> None:
        self.stage, self.client = stage, client
        self.given: list[str] = []
        self.prepare()
        module, *words = self.command
        self.program: StartedProgram = stage.start(self.role, module, *words, **self.changes())
        self.use_and_wait()

    @abstractmethod
    def prepare(self) -> None:
        """Make what its work needs."""

    def changes(self) -> Mapping[str, Mapping[str, Any]]:
        """Return its own settings."""
        return {}

    @abstractmethod
    def use(self) -> str:
        """Give it a piece of work; return its name."""

    @abstractmethod
    def is_done(self, name: str) -> bool:
        """Whether it has done that."""

    @abstractmethod
    def require_once(self) -> None:
        """Return when nothing of all that was given is lost, and nothing was done twice."""

    def use_and_wait(self) -> None:
        self.wait(self.give())

    def give(self) -> str:
        self.given.append(self.use())
        return self.given[-1]

    def wait(self, name: str) -> None:
        eventually(
            lambda: self.is_done(name),
            timeout_s=GOES_ON_WITHIN_S,
            interval_s=0.2,
            what=f"{self.role} did {name}:\n{self.program.tail}",
        )

    def page(self) -> str:
        """Return the faults that its page lists; empty where it is ready, or has no page."""
        return ""

    def said(self, since: int, word: str) -> bool:
        """Say whether a line since then names a missing right, and this."""
        return any(RIGHT in line and word in line for line in self.program.lines[since:])


class ResenderService(Service):
    """Its work: a request that no worker has read."""

    role = Role.RESENDER
    command = ("producer_client", "resend")

    def prepare(self) -> None:
        settings = self.stage.settings(Role.CLIENT)
        self._store = StatusStore(self.stage.secured.redis.admin, self.stage.group, settings.redis)

    def changes(self) -> Mapping[str, Mapping[str, Any]]:
        return {"client": {"topic": self.stage.topics["pay"], "resend_after_s": 1}}

    def use(self) -> str:
        name = self.client.send(b"paid").request_id
        self._store.redis.zadd(self._store.deadlines_key, {name: epoch_ms() - 1000})
        return name

    def is_done(self, name: str) -> bool:
        return self.client.status(name).attempt >= 2

    def require_once(self) -> None:
        run_all(self.stage, self.client, self.given)


class RelayService(Service):
    """Its work: a row of the outbox."""

    role = Role.RELAY
    command = ("producer_client", "relay")

    def prepare(self) -> None:
        self._port = free_port()

    def changes(self) -> Mapping[str, Mapping[str, Any]]:
        return {"outbox": {"http_port": self._port}}

    def use(self) -> str:
        url = self.stage.settings(Role.CLIENT).outbox.url
        with self.stage.connected(url) as connection:
            key = f"card-{len(self.given)}"  # so that each has a lane of its own
            name = self.client.send(b"paid", key=key, connection=connection).request_id
            connection.commit()
        return name

    def is_done(self, name: str) -> bool:
        return self.client.status(name).state is State.PENDING and self.page() == ""

    def page(self) -> str:
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._port}/ready") as answer:
                page = answer.read()
        except urllib.error.HTTPError as error:
            page = error.read()
        return "\n".join(json.loads(page)["refused"])

    def require_once(self) -> None:
        run_all(self.stage, self.client, self.given)


class RegistryService(Service):
    """Its work: a request past its expiry, of a worker that is gone."""

    role = Role.REGISTRY
    command = ("consumer.dlq", "expire")

    def prepare(self) -> None:
        plain = self.stage.secured.kafka.plain
        kafka = KafkaSection(bootstrap_servers=plain, group=self.stage.group)
        self._writer = KafkaWriter(kafka, timeout_s=30.0)
        self.stage.make_beside()

    def use(self) -> str:
        name = uuid.uuid4().hex
        own = tuple(encode_headers(Envelope(name, 1, None), ()))
        now = epoch_ms()
        record = Record(self.stage.topics["keep"], 0, len(self.given), now, b"card-1", b"", own)
        wait = WaitRecord(name, 1, "host-1-gone", now - 1000, record)
        self._writer.write([encode_wait(wait, group=self.stage.group, partition=0)])
        return name

    def is_done(self, name: str) -> bool:
        return name in self._letters()

    def _letters(self) -> Counter[str]:
        letters = f"{self.stage.topics['keep']}.{self.stage.group}.dlq"
        found = records_of(self.stage.secured.kafka.plain, letters)
        ids = [dict(one.headers)["onceward-request-id"].decode() for one in found]
        return Counter(ids)

    def require_once(self) -> None:
        assert self._letters() == Counter(self.given)
        self._writer.close()


def run_all(stage: RightsStage, client: Client, names: Sequence[str]) -> None:
    """Return when a worker has run each of these once, and nothing else."""
    stage.grant(Role.WORKER)
    worker = stage.worker()
    worker.told("worker.started")
    for one in names:
        assert client.wait(one, timeout_s=60).state is State.SUCCEEDED
    rows = stage.secured.postgres.run(
        "SELECT request_id, generation FROM onceward_request", database=stage.database
    )
    assert sorted(rows) == sorted((one, 1) for one in names)


WRITE_PAY = Gone("Write on topic {pay}", "allow it the topic, with Write")
KEYS = Gone("keys onceward:{group}:*", "permissions to access one of the keys")
SCHEMA = Gone("USAGE on schema public", "GRANT USAGE ON SCHEMA public")
QUICK = {
    ResenderService: (WRITE_PAY, Gone("the command EVALSHA", "'evalsha' command")),
    RelayService: (
        WRITE_PAY,
        Gone("UPDATE on table onceward_outbox", "UPDATE ON onceward_outbox"),
        SCHEMA,
    ),
    RegistryService: (
        Gone("Read on group {group}.expire", "{group}.expire"),
        Gone("UPDATE on table onceward_wait_partition", "onceward_wait_partition"),
        SCHEMA,
    ),
}
OF_SCRIPTS = (
    KEYS,
    Gone("the command EVALSHA", "'evalsha' command"),
    Gone("the command HSET", "names the missing one"),
    Gone("the command TIME", "names the missing one"),
    Gone("the command ZADD", "names the missing one"),
    Gone("the command PUBLISH on channels onceward:{group}:*", "this command"),
    Gone("channels onceward:{group}:*", "allow this user the channels as well"),
)
WHOLE = {
    ResenderService: (
        WRITE_PAY,
        *OF_SCRIPTS,
        Gone("the command GET", "'get' command"),
        Gone("the command STRLEN", "'strlen' command"),
        Gone("the command HGETALL", "'hgetall' command"),
        Gone("the command ZRANGEBYSCORE", "names the missing one"),
        Gone("the command ZSCAN", "'zscan' command"),
    ),
    RelayService: (
        WRITE_PAY,
        *OF_SCRIPTS,
        Gone("SELECT on table onceward_outbox", "onceward_outbox"),
        Gone("UPDATE on table onceward_outbox", "UPDATE ON onceward_outbox"),
        # INSERT on it is asked for at the start alone, which makes the lanes.
        Gone("UPDATE on table onceward_outbox_lane", "onceward_outbox_lane"),
        Gone("SELECT on table onceward_outbox_lane", "onceward_outbox_lane"),
    ),
    RegistryService: (
        Gone("Read on group {group}.expire", "{group}.expire"),
        Gone("Read on topic {keep}.{group}.wait", "{keep}.{group}.wait"),
        Gone("Write on topic {keep}.{group}.wait", "{keep}.{group}.wait"),
        Gone("Read on topic {keep}.{group}.dlq", "{keep}.{group}.dlq"),
        Gone("Write on topic {keep}.{group}.dlq", "{keep}.{group}.dlq"),
        Gone("the command EXISTS on keys onceward:{group}:*", "'exists' command"),
        Gone("INSERT on table onceward_wait", "onceward_wait"),
        Gone("SELECT on table onceward_wait", "onceward_wait"),
        Gone("DELETE on table onceward_wait", "onceward_wait"),
        Gone("INSERT on table onceward_wait_expiry", "onceward_wait_expiry"),
        Gone("DELETE on table onceward_wait_expiry", "onceward_wait_expiry"),
        Gone("UPDATE on table onceward_wait_partition", "onceward_wait_partition"),
    ),
}


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables, and the rights of a client."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        made.grant(Role.CLIENT)
        yield made


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kind", QUICK)
def test_a_service_that_loses_a_right_names_it_and_goes_on(
    stage: RightsStage, kind: type[Service]
) -> None:
    lose_each(stage, kind, QUICK[kind])


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_registry_names_a_wait_topic_that_it_may_not_see_at_all(stage: RightsStage) -> None:
    """While it runs, at a start and with --once; a topic that is hidden is in no list of Kafka."""
    stage.grant(Role.REGISTRY)
    topic = stage.wait_topic
    with Client(stage.settings(Role.CLIENT)) as client:
        service = RegistryService(stage, client)
        stage.secured.kafka.take_away(Role.REGISTRY, KINDS["--topic"], topic)
        given = service.give()
        require_named(service.program, topic)
        once = stage.command("consumer.dlq", "expire", "--once", role=Role.REGISTRY)
        assert once.returncode == ExitCode.NOT_AVAILABLE
        assert topic in once.stderr.splitlines()[-2], once.stderr
        began_without = stage.start(Role.REGISTRY, "consumer.dlq", "expire")
        require_named(began_without, topic)
        service.program.kill()
        stage.grant(Role.REGISTRY)
        service.wait(given)
        began_without.told("waits.topic_back")
        service.require_once()


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_registry_that_never_saw_a_wait_topic_lacks_a_right_or_has_none(
    stage: RightsStage,
) -> None:
    def once(*, code: ExitCode) -> str:
        ran = stage.command("consumer.dlq", "expire", "--once", role=Role.REGISTRY)
        assert ran.returncode == code, ran.stderr
        return ran.stderr

    stage.grant(Role.REGISTRY)
    once(code=ExitCode.FINE)  # it might see one, and there is none yet
    stage.make_beside()
    kafka, topics = stage.secured.kafka, KINDS["--topic"]
    kafka.take_away(Role.REGISTRY, topics, stage.wait_topic)
    blind = once(code=ExitCode.NOT_AVAILABLE)  # the topic of requests is seen alone
    assert RIGHT in blind and f"<topic>.{stage.group}.wait" in blind
    kafka.take_away(Role.REGISTRY, topics)
    assert RIGHT in once(code=ExitCode.NOT_AVAILABLE)
    began_without = stage.start(Role.REGISTRY, "consumer.dlq", "expire")
    require_named(began_without, f"<topic>.{stage.group}.wait")
    stage.grant(Role.REGISTRY)
    began_without.told("waits.topic_back")


def require_named(program: StartedProgram, topic: str) -> None:
    """Return when the program has said, once, that it may not see a topic."""

    def named() -> list[dict[str, Any]]:
        return [one for one in program.events("access.refused") if one.get("topic") == topic]

    eventually(named, timeout_s=SAID_WITHIN_S, what=f"{topic} named:\n{program.tail}")
    (said,) = named()
    assert RIGHT in said["reason"]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", WHOLE)
def test_a_service_that_loses_any_right_names_it_and_goes_on(
    stage: RightsStage, kind: type[Service]
) -> None:
    lose_each(stage, kind, WHOLE[kind])


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", WHOLE)
def test_the_loss_of_any_right_is_named_or_hinders_nothing(
    stage: RightsStage, kind: type[Service]
) -> None:
    """Also of those that a service uses seldom."""
    stage.grant(kind.role)
    wanted = rights_of(kind.role, stage.settings(kind.role), declared(stage))
    with Client(stage.settings(Role.CLIENT)) as client:
        service = kind(stage, client)
        for atom in atoms(stage, kind.role, wanted):
            since = len(service.program.lines)
            atom.take()
            given = service.give()
            eventually(
                lambda since=since, given=given: service.said(since, "") or service.is_done(given),  # type: ignore[misc]
                timeout_s=SAID_WITHIN_S,
                what=f"a line, or its end: {atom.name}:\n{service.program.tail}",
            )
            atom.give()
            service.wait(given)
        assert service.program.is_alive
        service.require_once()


def lose_each(stage: RightsStage, kind: type[Service], rows: Sequence[Gone]) -> None:
    names = {**stage.topics, "group": stage.group}
    stage.grant(kind.role)
    wanted = rights_of(kind.role, stage.settings(kind.role), declared(stage))
    known = [*atoms(stage, kind.role, wanted)]
    with Client(stage.settings(Role.CLIENT)) as client:
        service = kind(stage, client)
        for gone in rows:
            row = Gone(*(one.format(**names) for one in gone))
            found = [one for one in known if one.name.endswith(row.right)]
            lose(service, min(found, key=lambda one: len(one.name)), row)
        assert service.program.is_alive
        service.require_once()


def lose(service: Service, atom: Atom, row: Gone) -> None:
    since = len(service.program.lines)
    atom.take()
    given = service.give()
    eventually(
        partial(service.said, since, row.said),
        timeout_s=SAID_WITHIN_S,
        what=f"a line without {row.right}: {row.said}:\n{service.program.tail}",
    )
    if isinstance(service, RelayService):
        eventually(
            lambda: RIGHT in (page := service.page()) and row.said in page,
            timeout_s=SAID_WITHIN_S,
            what=f"a page that says {row.said}",
        )
    atom.give()
    service.wait(given)
