"""An application that logs everything logs no password, payload, key or header of ours."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from feedback.rights.needed import Role
from feedback.status import State
from producer_client import AsyncClient, Client
from tests.consumer.ops.rights.stage import RightsStage, rights_stage
from tests.producer_client.records import records_of
from tests.stack.secured_stack import Secured, password_of

pytestmark = [pytest.mark.usefixtures("no_given_servers"), pytest.mark.long]

MARK = "visa4111"
KEY, VALUE, HEADER = (f"{MARK}-{one}".encode() for one in ("key", "value", "header"))
# Of these libraries lines at DEBUG are heard, so that the test looks at some.
TOLD_BY = {"kafka", "sqlalchemy"}


@pytest.fixture
def stage(secured: Secured, tmp_path: Path) -> Iterator[RightsStage]:
    """Yield a stage with tables, and the rights of worker, client and relay."""
    with rights_stage(secured, tmp_path) as made:
        made.migrate()
        for role in (Role.WORKER, Role.CLIENT, Role.RELAY):
            made.grant(role)
        yield made


@pytest.mark.timeout(180)
def test_no_secret_is_logged_at_debug(stage: RightsStage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    for name in [*logging.root.manager.loggerDict, "kafka", "onceward"]:
        caplog.set_level(1, logger=name)
    words = ("run", "--log-level", "debug")
    worker = stage.start(Role.WORKER, "consumer", *words)
    worker.told("worker.started")
    relay = stage.start(Role.RELAY, "producer_client", "relay", "--log-level", "debug")
    settings = stage.settings(Role.CLIENT)
    with Client(settings) as client, stage.connected(settings.outbox.url) as connection:
        sent = client.send(VALUE, key=KEY, headers=[("card", HEADER)])
        assert client.wait(sent.request_id, timeout_s=60).state is State.SUCCEEDED
        row = client.send(VALUE, key=KEY, connection=connection)
        connection.commit()
        assert client.wait(row.request_id, timeout_s=60).state is State.SUCCEEDED
        asyncio.run(send(stage))
    heard = {one.name.partition(".")[0] for one in caplog.records if one.levelno <= logging.DEBUG}
    assert heard >= TOLD_BY
    lines = [f"{one.name}: {caplog.handler.format(one)}" for one in caplog.records]
    of_programs = [*worker.lines, *relay.lines]
    assert any('"level": "debug"' in one for one in of_programs)
    leaks = [one for one in (*lines, *of_programs) if any(secret in one for secret in secrets())]
    assert leaks == []
    for record in records_of(stage.secured.kafka.plain, stage.topics["pay"]):
        own = [one for one in record.headers if one[0] != "card"]
        assert not any(word.encode() in value for _, value in own for word in secrets())


async def send(stage: RightsStage) -> None:
    async with AsyncClient(stage.settings(Role.CLIENT)) as client:
        sent = await client.send(VALUE, key=KEY)
        assert (await client.wait(sent.request_id, timeout_s=60)).state is State.SUCCEEDED


def secrets() -> set[str]:
    """Return the passwords and the payload as they could stand in a line."""
    found = {MARK, base64.b64encode(VALUE).decode(), VALUE.hex()}
    for role in (Role.WORKER, Role.CLIENT, Role.RELAY):
        plain = password_of(role)
        found |= {plain, quote(plain, safe=""), repr(plain)[1:-1], plain.replace('"', '\\"')}
        found.add(base64.b64encode(plain.encode()).decode()[:20])
    return found
