"""A right that is granted and taken every second while requests run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from consumer.ops.rights.roles import rights_of
from feedback.clock import monotonic_s
from feedback.errors import NotSent, RedisUnavailable, SendUnknown
from feedback.rights.needed import Role
from feedback.status import State
from feedback.statuses import Status
from producer_client import Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.consumer.ops.rights.test_checked import Atom, atoms, declared
from tests.stack.secured_stack import Secured

pytestmark = [pytest.mark.usefixtures("no_given_servers"), pytest.mark.long]

FLAPS_FOR_S, EACH_S = 60.0, 1.0
ENDS_WITHIN_S = 120.0
RATE_S = 0.1


class Sent(NamedTuple):
    """What a client was told of the requests that it sent."""

    taken: list[str]
    unknown: list[str]
    refused: list[str]


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables, all topics, and the rights of worker and client."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        made.make_beside()
        for role in (Role.WORKER, Role.CLIENT):
            made.grant(role)
        yield made


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("role", "right"),
    [
        (Role.WORKER, "UPDATE on table onceward_request"),
        (Role.WORKER, "INSERT on table onceward_request"),
        (Role.WORKER, "Read on group {group}"),
        (Role.WORKER, "the command HSET"),
        (Role.CLIENT, "Write on topic {pay}"),
        (Role.CLIENT, "the command EVALSHA"),
    ],
)
def test_a_right_that_flaps_under_load_costs_no_request(
    stage: RightsStage, role: Role, right: str
) -> None:
    atom = atom_of(stage, role, right)
    worker = stage.worker()
    worker.told("worker.started")
    with Client(stage.settings(Role.CLIENT)) as client:
        over = threading.Event()
        flapping = threading.Thread(target=flap, args=(atom, over, FLAPS_FOR_S, EACH_S))
        flapping.start()
        try:
            sent = _send_until(client, over)
        finally:
            flapping.join()
        assert worker.is_alive
        _require_once(stage, client, sent)


def atom_of(stage: RightsStage, role: Role, right: str) -> Atom:
    """Return the right of a role whose name ends so, with the stage's names in it."""
    name = right.format(**stage.topics, group=stage.group)
    wanted = rights_of(role, stage.settings(role), declared(stage))
    found = [one for one in atoms(stage, role, wanted) if one.name.endswith(name)]
    return min(found, key=lambda one: len(one.name))


def flap(atom: Atom, over: threading.Event, for_s: float, each_s: float) -> None:
    """Take a right and give it back, as far apart as is said; set `over` at the end."""
    until_s = monotonic_s() + for_s
    pause = threading.Event()  # nothing sets it
    try:
        while monotonic_s() < until_s:
            atom.take()
            pause.wait(each_s)
            atom.give()
            pause.wait(each_s)
    finally:
        over.set()


def _send_until(client: Client, over: threading.Event) -> Sent:
    sent = Sent([], [], [])
    number = 0
    while not over.wait(RATE_S):
        number += 1
        name = f"order-{number}"
        try:
            client.send(b"paid", request_id=name)
        except NotSent:
            sent.refused.append(name)
        except SendUnknown:
            sent.unknown.append(name)
        else:
            sent.taken.append(name)
    return sent


def _require_once(stage: RightsStage, client: Client, sent: Sent) -> None:
    """Return when what was taken has run once, and what was not sent has not run."""
    for one in sent.taken:
        ended = _again(lambda one=one: client.wait(one, timeout_s=ENDS_WITHIN_S))  # type: ignore[misc]
        assert ended.state is State.SUCCEEDED, ended
    rows = stage.secured.postgres.run(
        "SELECT request_id, state, generation FROM onceward_request", database=stage.database
    )
    ran = {one: (state, generation) for one, state, generation in rows}
    assert {one: ran.get(one) for one in sent.taken} == dict.fromkeys(sent.taken, ("SUCCEEDED", 1))
    assert ran.keys().isdisjoint(sent.refused)
    assert all(ran.get(one, ("SUCCEEDED", 1)) == ("SUCCEEDED", 1) for one in sent.unknown)
    counts = [len(one) for one in sent]
    assert counts[0] > 50, counts


def _again(ask: Callable[[], Status]) -> Status:
    try:
        return ask()
    except RedisUnavailable:
        return ask()
