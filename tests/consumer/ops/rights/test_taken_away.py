"""A running worker loses a right: it says which, loses nothing, and goes on when it is granted."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from consumer.ops.rights.roles import rights_of
from feedback.rights.needed import Role
from feedback.status import FINAL, State
from onceward.servers.ports import HOST, free_port
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.consumer.ops.rights.test_checked import Atom, atoms, declared
from tests.consumer.running import RunningWorker
from tests.eventually import eventually
from tests.feedback.kafka.engines.members import ENGINES
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")

SAID_WITHIN_S = 60.0
ENDS_WITHIN_S = 60.0
RIGHT = "lacks a right"


class Lost(NamedTuple):
    """A right that the worker uses at once.

    Args:
        right: how `check` names it, with the stage's own names in braces.
        said: in one line of the log, beside the server's name.
        page: in the list `refused` of /ready; empty where the page does not know.
    """

    right: str
    said: str
    page: str = ""


QUICK = (
    Lost("Read on group {group}", "allow it the group, with Read", "{group}"),
    Lost("Write on topic {pay}.{group}.*", "allow it the topic, with Write"),
    Lost("the command HSET", "names the missing one", "names the missing one"),
    Lost(
        "UPDATE on table onceward_request",
        "UPDATE ON onceward_request to it",
        "onceward_request",
    ),
    Lost("USAGE on schema public", "GRANT USAGE ON SCHEMA public", "SCHEMA public"),
)
WHOLE = (
    Lost("Read on topic {pay}", "allow it the topic, with Read", "{pay}"),
    Lost("Read on topic {keep}", "allow it the topic, with Read", "{keep}"),
    Lost("Write on topic {outcomes}", "{outcomes}"),
    Lost("Read on topic {pay}.{group}.*", "{pay}.{group}.retry.300ms"),
    Lost("Read on topic {keep}.{group}.*", "{keep}.{group}.wait"),
    Lost("Write on topic {keep}.{group}.*", "{keep}.{group}.wait"),
    Lost("Read on group {group}.retry", "{group}.retry"),
    Lost("Read on group {group}.wait", "{group}.wait"),
    Lost("keys onceward:{group}:*", "permissions to access one of the keys", "keys"),
    Lost("channels onceward:{group}:*", "allow this user the channels as well", "channels"),
    Lost("the command EVALSHA", "run the 'evalsha' command", "evalsha"),
    Lost("the command HMGET", "names the missing one", "names the missing one"),
    Lost("the command PUBLISH on channels onceward:{group}:*", "this command", "this command"),
    Lost("the command SET", "'set' command", "'set' command"),
    Lost("INSERT on table onceward_request", "onceward_request", "onceward_request"),
    Lost("SELECT on table onceward_request", "onceward_request", "onceward_request"),
    Lost("INSERT on table onceward_run", "onceward_run", "onceward_run"),
    Lost("USAGE on sequence onceward_run_id_seq", "onceward_run_id_seq", "onceward_run_id_seq"),
    Lost("UPDATE on table onceward_worker", "onceward_worker", "onceward_worker"),
)
# Each is sent while the right is away, with the end and the number of its run.
SENT = {
    b"paid": (State.SUCCEEDED, 1),
    b"again": (State.SUCCEEDED, 2),
    b"rejected": (State.FAILED, 1),
    b"": (State.SUCCEEDED, 1),
}


class Losing:
    """A worker with exactly its rights, and a client of its requests."""

    def __init__(self, stage: RightsStage, client: Client, library: str) -> None:
        self.stage, self.client = stage, client
        self._port = free_port()
        for_pages = {"handlers": ["tests.consumer.ops.rights.rights_handlers"]}
        self.worker: RunningWorker = stage.worker(
            worker={**for_pages, "drain_timeout_s": 5, "http_port": self._port},
            kafka={"client": library},
        )
        self.worker.told("worker.started")
        self.require_ends(self.send())
        # On a slow machine a new broker names nobody for a while who coordinates a new group.
        self.backs_at_start = len(self.worker.events("kafka.back"))

    def send(self) -> dict[bytes, str]:
        """Send each request; return their ids by value."""
        names = {value: "keep" if value == b"" else "pay" for value in SENT}
        return {
            value: self.client.send(value, topic=self.stage.topics[name]).request_id
            for value, name in names.items()
        }

    def require_ends(self, sent: dict[bytes, str]) -> None:
        """Return when each has ended as it should, by the run by which it should."""
        for value, (state, generation) in SENT.items():
            ended = self.client.wait(sent[value], timeout_s=ENDS_WITHIN_S)
            assert (value, ended.state) == (value, state), ended
            rows = self.stage.secured.postgres.run(
                f"SELECT generation FROM onceward_request WHERE request_id = '{sent[value]}'",
                database=self.stage.database,
            )
            assert (value, rows) == (value, [(generation,)])

    def has_ended(self, sent: dict[bytes, str]) -> bool:
        """Say whether all of these have ended."""
        return all(self.client.status(one).state in FINAL for one in sent.values())

    def refused(self) -> str:
        """Return the faults that /ready lists."""
        try:
            with urllib.request.urlopen(f"http://{HOST}:{self._port}/ready") as answer:
                page = answer.read()
        except urllib.error.HTTPError as error:
            page = error.read()
        return "\n".join(json.loads(page)["refused"])

    def said(self, since: int, word: str) -> bool:
        """Say whether a line since then names a missing right, and this."""
        return any(RIGHT in line and word in line for line in self.worker.lines[since:])


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables, and the rights of worker and client."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        made.grant(Role.WORKER)
        made.grant(Role.CLIENT)
        yield made


@pytest.mark.timeout(180)
@pytest.mark.parametrize("library", ENGINES)
def test_a_worker_that_loses_a_right_names_it_and_goes_on(stage: RightsStage, library: str) -> None:
    losing = lose_each(stage, QUICK, library)
    worker = losing.worker
    # What may be read and not be committed is no end of it.
    assert len(worker.events("kafka.back")) - losing.backs_at_start <= 1
    # The mark that a status was told waits for the right, and is no reason to tell it again.
    assert sum(one["count"] for one in worker.events("statuses.repaired")) <= 3


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("library", ENGINES)
def test_a_worker_that_loses_any_right_names_it_and_goes_on(
    stage: RightsStage, library: str
) -> None:
    lose_each(stage, WHOLE, library)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_loss_of_any_right_is_named_or_hinders_nothing(stage: RightsStage) -> None:
    """Also of those that a worker uses seldom, as at its start or after a crash."""
    wanted = rights_of(Role.WORKER, stage.settings(Role.WORKER), declared(stage))
    with Client(stage.settings(Role.CLIENT)) as client:
        losing = Losing(stage, client, ENGINES[0])
        for atom in atoms(stage, Role.WORKER, wanted):
            since = len(losing.worker.lines)
            atom.take()
            sent = losing.send()
            eventually(
                lambda since=since, sent=sent: losing.said(since, "") or losing.has_ended(sent),  # type: ignore[misc]
                timeout_s=SAID_WITHIN_S,
                what=f"a line, or their ends: {atom.name}:\n{losing.worker.tail}",
            )
            atom.give()
            losing.require_ends(sent)
            eventually(lambda: losing.refused() == "", timeout_s=ENDS_WITHIN_S, what="a page")
        assert losing.worker.is_alive


def lose_each(stage: RightsStage, rows: Sequence[Lost], library: str) -> Losing:
    names = {**stage.topics, "group": stage.group}
    wanted = rights_of(Role.WORKER, stage.settings(Role.WORKER), declared(stage))
    known = [*atoms(stage, Role.WORKER, wanted)]
    with Client(stage.settings(Role.CLIENT)) as client:
        losing = Losing(stage, client, library)
        for lost in rows:
            row = Lost(*(one.format(**names) for one in lost))
            found = [one for one in known if one.name.endswith(row.right)]
            # PUBLISH is looked at on the channels, which are a right of their own.
            lose(losing, min(found, key=lambda one: len(one.name)), row)
        assert losing.worker.is_alive
        return losing


def lose(losing: Losing, atom: Atom, row: Lost) -> None:
    since = len(losing.worker.lines)
    atom.take()
    sent = losing.send()
    eventually(
        partial(losing.said, since, row.said), timeout_s=SAID_WITHIN_S, what=f"a line: {row.said}"
    )
    if row.page:
        eventually(
            lambda: row.page in losing.refused(),
            timeout_s=SAID_WITHIN_S,
            what=f"{row.page} on the page",
        )
    atom.give()
    losing.require_ends(sent)
    eventually(lambda: losing.refused() == "", timeout_s=ENDS_WITHIN_S, what="a page without it")
