"""A client loses a right: the error of its call names it, and the same call works once granted."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from consumer.ops.rights.roles import rights_of
from feedback.errors import NotSent, OncewardError, RedisUnavailable, SendUnknown
from feedback.rights.needed import Role
from feedback.status import State
from producer_client import Client
from producer_client.outbox import OutboxForbidden
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.consumer.ops.rights.test_checked import Atom, atoms, declared
from tests.stack.secured_stack import Secured

pytestmark = pytest.mark.usefixtures("no_given_servers")

ENDS_WITHIN_S = 60.0


class Denied(NamedTuple):
    """A right, and what is said without it.

    Args:
        right: how `check` names it, with the stage's own names in braces.
        error: of the call.
        said: in its text, beside that a right is missing.
        call: `send`, `status` or `outbox`.
    """

    right: str
    error: type[OncewardError]
    said: str
    call: str = "send"


QUICK = (
    Denied("Write on topic {pay}", NotSent, "allow it the topic, with Write"),
    Denied("the command EVALSHA", SendUnknown, "'evalsha' command"),
    Denied("the command HSET", SendUnknown, "names the missing one"),
    Denied("INSERT on table onceward_outbox", OutboxForbidden, "onceward_outbox", "outbox"),
)
WHOLE = (
    Denied("keys onceward:{group}:*", SendUnknown, "permissions to access one of the keys"),
    Denied("channels onceward:{group}:*", SendUnknown, "allow this user the channels as well"),
    Denied("the command SET", SendUnknown, "names the missing one"),
    Denied("the command ZADD", SendUnknown, "names the missing one"),
    Denied("the command TIME", SendUnknown, "names the missing one"),
    Denied("the command HGETALL", RedisUnavailable, "'hgetall' command", "status"),
    Denied(
        "USAGE on sequence onceward_outbox_id_seq",
        OutboxForbidden,
        "onceward_outbox_id_seq",
        "outbox",
    ),
)


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables, and the rights of worker, client and relay."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        for role in (Role.WORKER, Role.CLIENT, Role.RELAY):
            made.grant(role)
        yield made


@pytest.mark.timeout(300)
def test_a_client_that_loses_a_right_is_told_which(stage: RightsStage) -> None:
    lose_each(stage, QUICK)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_client_that_loses_any_right_is_told_which(stage: RightsStage) -> None:
    lose_each(stage, WHOLE)


def lose_each(stage: RightsStage, rows: Sequence[Denied]) -> None:
    names = {**stage.topics, "group": stage.group}
    wanted = rights_of(Role.CLIENT, stage.settings(Role.CLIENT), declared(stage))
    known = [*atoms(stage, Role.CLIENT, wanted)]
    stage.worker().told("worker.started")
    stage.start(Role.RELAY, "producer_client", "relay").told("relay.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        for number, one in enumerate(rows):
            found = [atom for atom in known if atom.name.endswith(one.right.format(**names))]
            atom = min(found, key=lambda atom: len(atom.name))
            lose(stage, client, atom, one, request_id=f"order-{number}")


def lose(stage: RightsStage, client: Client, atom: Atom, row: Denied, *, request_id: str) -> None:
    atom.take()
    with pytest.raises(row.error) as caught:
        call(stage, client, row.call, request_id)
    atom.give()
    assert "lacks a right" in str(caught.value), (row.right, str(caught.value))
    assert row.said in str(caught.value), (row.right, str(caught.value))
    call(stage, client, "outbox" if row.call == "outbox" else "send", request_id)
    assert client.wait(request_id, timeout_s=ENDS_WITHIN_S).state is State.SUCCEEDED
    rows = stage.secured.postgres.run(
        f"SELECT generation FROM onceward_request WHERE request_id = '{request_id}'",
        database=stage.database,
    )
    assert rows == [(1,)]


def call(stage: RightsStage, client: Client, kind: str, request_id: str) -> None:
    if kind == "status":
        client.status(request_id)
    elif kind == "send":
        client.send(b"paid", request_id=request_id)
    else:
        url = stage.settings(Role.CLIENT).outbox.url
        with stage.connected(url) as connection:
            client.send(b"paid", request_id=request_id, connection=connection)
            connection.commit()
