"""A right that flaps while marked effects are open, and an asynchronous client sends one by one."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from feedback.errors import NotSent, RedisUnavailable, SendUnknown
from feedback.rights.needed import Role
from feedback.status import State
from producer_client import AsyncClient
from producer_client.outbox import OutboxForbidden
from tests.consumer.ops.rights.held_handlers import EFFECTS
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.consumer.ops.rights.test_flapping import atom_of, flap
from tests.producer_client.records import records_of
from tests.stack.secured_stack import Secured

pytestmark = [pytest.mark.usefixtures("no_given_servers"), pytest.mark.long]

FLAPS_FOR_S, EACH_S = 24.0, 1.5
ENDS_WITHIN_S = 120.0
RATE_S = 0.25
OUTBOX_EVERY = 4


@dataclass
class Told:
    """What an asynchronous client was told, by request."""

    ended: dict[str, State] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables, all topics, and the rights of worker, client and relay."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        made.make_beside()
        for role in (Role.WORKER, Role.CLIENT, Role.RELAY):
            made.grant(role)
        yield made


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("role", "right"),
    [
        (Role.WORKER, "UPDATE on table onceward_request"),
        (Role.WORKER, "UPDATE on table onceward_worker"),
        (Role.WORKER, "keys onceward:{group}:*"),
        (Role.WORKER, "Read on topic {pay}"),
        (Role.CLIENT, "Write on topic {pay}"),
        (Role.CLIENT, "the command HGETALL"),
        (Role.CLIENT, "INSERT on table onceward_outbox"),
        (Role.RELAY, "DELETE on table onceward_outbox"),
    ],
)
def test_a_right_that_flaps_makes_no_word_about_an_effect_false(
    stage: RightsStage, role: Role, right: str
) -> None:
    atom = atom_of(stage, role, right)
    programs = [
        stage.worker(worker={"handlers": ["tests.consumer.ops.rights.held_handlers"]}),
        stage.start(Role.RELAY, "producer_client", "relay"),
    ]
    for program, event in zip(programs, ("worker.started", "relay.started"), strict=True):
        program.told(event)
    over = threading.Event()
    flapping = threading.Thread(target=flap, args=(atom, over, FLAPS_FOR_S, EACH_S))
    flapping.start()
    try:
        told = asyncio.run(_send_until(stage, over))
    finally:
        flapping.join()
    assert all(one.is_alive for one in programs)
    require_true(stage, told)


def require_true(stage: RightsStage, told: Told) -> None:
    """Return when all that was sent had its effect once, and what was refused is nowhere."""
    assert set(told.ended.values()) == {State.SUCCEEDED}, told.ended
    assert len(told.ended) > 30
    effects = Counter((stage.folder / EFFECTS).read_text().split())
    assert set(effects.values()) == {1}, effects.most_common(5)
    records = records_of(stage.secured.kafka.plain, stage.topics["pay"])
    sent = {dict(one.headers)["onceward-request-id"].decode() for one in records}
    assert told.refused.isdisjoint(effects.keys() | sent)
    assert told.ended.keys() <= effects.keys() <= told.ended.keys() | told.unknown
    rows = stage.secured.postgres.run(
        "SELECT DISTINCT state, generation FROM onceward_request", database=stage.database
    )
    assert rows == [("SUCCEEDED", 1)]


async def _send_until(stage: RightsStage, over: threading.Event) -> Told:
    told = Told()
    settings = stage.settings(Role.CLIENT)
    engine = create_async_engine(settings.outbox.url)
    async with AsyncClient(settings) as client, asyncio.TaskGroup() as tasks:
        number = 0
        while not over.is_set():
            number += 1
            where = engine if number % OUTBOX_EVERY == 0 else None
            tasks.create_task(_follow(client, f"order-{number}", where, told))
            await asyncio.sleep(RATE_S)
    await engine.dispose()
    return told


async def _follow(client: AsyncClient, name: str, outbox: AsyncEngine | None, told: Told) -> None:
    try:
        if outbox is None:
            await client.send(b"paid", request_id=name)
        else:
            async with outbox.connect() as connection:
                await client.send(b"paid", request_id=name, connection=connection)
                await connection.commit()
    except (NotSent, OutboxForbidden):
        told.refused.add(name)
    except SendUnknown:
        told.unknown.add(name)
    else:
        told.ended[name] = await _end_of(client, name)


async def _end_of(client: AsyncClient, name: str) -> State:
    try:
        return (await client.wait(name, timeout_s=ENDS_WITHIN_S)).state
    except RedisUnavailable:
        return (await client.wait(name, timeout_s=ENDS_WITHIN_S)).state
