"""Callers in unusual places: inside an `except`, suspended in the middle of a send, and in children
of the process that made the client."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from pathlib import Path

import psycopg

from feedback.clock import monotonic_s
from feedback.errors import NotSent, OncewardError, SendUnknown
from feedback.settings.settings import load
from onceward.servers.ports import HOST, free_port
from producer_client import Client
from producer_client.outbox import migrate as migrate_outbox
from tests.chaos.caller import Said
from tests.chaos.figure import Figure
from tests.chaos.orders import Order
from tests.chaos.pace import Rate
from tests.chaos.place import RESEND_AFTER_S
from tests.chaos.row import LIGHT, JournalKind, Row
from tests.chaos.scene import Scene
from tests.eventually import eventually
from tests.kit.program import KeptProgram
from tests.paused import paused
from tests.stack.losing_link import LosingLink
from tests.stack.postgres import dsn

WORKERS = 2
RATE = 15.0
# Of the numbers of orders, behind those of the load.
FIRST = 1_000_000
SUSPENDED_S = RESEND_AFTER_S + 5.0
AT_ONCE = 16
ENDS_WITHIN_S = 90.0
# `send_timeout_s`, and what a slow machine adds.
SLOWEST_SEND_S = 15.0


def inside_except(scene: Scene) -> list[Figure]:
    """Send while another error is being handled, and lose the replies of Redis."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.flow(1.0)
    address = scene.place.redis.rpartition("/")[0].rpartition("/")[2]
    lost = 0
    with LosingLink(address, loses=_writes) as link:
        settings = load(
            scene.place.settings_file,
            redis={"url": scene.place.redis.replace(address, link.address)},
        )
        for number in range(scene.size(60, short=12)):
            # A client of its own for each: one whose connection was lost asks for a new one first.
            with Client(settings) as client:
                client.status("nobody")
                link.lose(1)
                _send_in_except(scene, client, scene.orders.order(FIRST + number))
        lost = link.lost
    return [Figure("replies lost", lost, least=1)]


def _writes(sent: bytes) -> bool:
    return b"EVALSHA" in sent


def _send_in_except(scene: Scene, client: Client, order: Order) -> None:
    sent_s, told = monotonic_s(), None
    one = scene.clients.submission(order)
    try:
        try:
            socket.create_connection((HOST, free_port()), timeout=1.0).close()
        except ConnectionRefusedError:
            client.send(one.value, key=one.key, topic=one.topic, request_id=one.request_id)
    except OncewardError as error:
        told = error
    scene.clients.take_over(order, sent_s=sent_s, error=told)


def suspended(scene: Scene) -> list[Figure]:
    """Suspend callers in the middle of sends that Kafka does not take, until the resender came."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.flow(1.0)
    settings = without_kafka(scene)
    for number in range(scene.size(4, short=1)):
        first = FIRST + number * AT_ONCE
        caller = scene.start_caller("at-once", settings=settings, first=first, count=AT_ONCE)
        await_pending(scene, caller, AT_ONCE)
        with paused(caller.pid):
            scene.pause(SUSPENDED_S)
        caller.ended(within_s=ENDS_WITHIN_S)
        take_over(scene, caller)
    return []


def await_pending(scene: Scene, caller: KeptProgram, count: int) -> None:
    """Return when so many of its requests are told as PENDING."""
    eventually(
        lambda: len(_pending(scene, caller, count)) == count,
        timeout_s=ENDS_WITHIN_S,
        interval_s=0.05,
        what="requests told as PENDING",
    )


def _pending(scene: Scene, caller: KeptProgram, most: int) -> Sequence[str]:
    ids = [scene.orders.order(one.number).request_id for one in said_by(caller)]
    if len(set(ids)) < most:
        return ()
    return [one.request_id for one in scene.client.store.read_many(ids[:most]) if one.attempt]


def without_kafka(scene: Scene) -> Path:
    """Return settings under which nobody answers for Kafka."""
    text = scene.place.settings_file.read_text()
    settings = scene.place.folder / "without-kafka.toml"
    settings.write_text(text.replace(scene.place.kafka, f"{HOST}:{free_port()}"))
    return settings


def prefork(scene: Scene) -> list[Figure]:
    """Send in children of the process that made the client: one used before, and one not."""
    scene.start_workers(WORKERS)
    scene.clients.start(Rate(RATE))
    scene.flow(1.0)
    url = scene.place.journal.direct
    migrate_outbox(url)
    scene.start_relay(url)
    count = scene.size(40, short=12)
    mute = without_kafka(scene)
    callers = [
        scene.start_caller("used", first=FIRST, count=count),
        scene.start_caller("unused", first=2 * FIRST, count=count),
        scene.start_caller("unused", settings=mute, first=3 * FIRST, count=count, outbox=url),
    ]
    told: list[str] = []
    slowest_s = 0.0
    for caller in callers:
        caller.ended(within_s=ENDS_WITHIN_S)
        told += [one.told for one in said_by(caller)]
        slowest_s = max(slowest_s, take_over(scene, caller))
    scene.await_told()
    _await_empty_outbox(url)
    failed = [one for one in told if one not in ("began", "sent") and not one.startswith("refused")]
    return [
        # Every server is there; what was made in another process may only be refused as such.
        Figure(f"failed sends {sorted(set(failed))}", len(failed), most=0),
        Figure("s that the slowest send took", slowest_s, most=SLOWEST_SEND_S, timed=True),
    ]


def _await_empty_outbox(url: str) -> None:
    def is_empty() -> bool:
        with psycopg.connect(dsn(url)) as connection:
            row = connection.execute(
                "SELECT count(*) FROM onceward_outbox WHERE state = 'WAITING'"
            ).fetchone()
        return row == (0,)

    eventually(is_empty, timeout_s=ENDS_WITHIN_S, interval_s=0.2, what="an empty outbox")


def said_by(caller: KeptProgram) -> list[Said]:
    """Return all that the caller has said so far."""
    return [Said(**json.loads(line)) for line in caller.lines if line.startswith('{"number"')]


def take_over(scene: Scene, caller: KeptProgram) -> float:
    """Have the clients go on with what the caller was told; return its longest send."""
    began: dict[int, float] = {}
    slowest_s = 0.0
    for said in said_by(caller):
        if said.told == "began":
            began.setdefault(said.number, said.at_s)
        elif not said.told.startswith("refused"):
            sent_s = began[said.number]
            slowest_s = max(slowest_s, said.at_s - sent_s)
            order = scene.orders.order(said.number)
            scene.clients.take_over(order, sent_s=sent_s, error=_error(said, order))
    return slowest_s


def _error(said: Said, order: Order) -> OncewardError | None:
    if said.told == "sent":
        return None
    kind = NotSent if said.told == "NotSent" else SendUnknown
    return kind(order.request_id, said.told)


ROWS = (
    Row(
        "caller-inside-except",
        "sends within an `except`, whose reply of Redis is lost",
        JournalKind.SQLITE,
        inside_except,
        settings=LIGHT,
    ),
    Row(
        "caller-suspended",
        "callers suspended for 15 s in the middle of sends that Kafka does not take",
        JournalKind.POSTGRES,
        suspended,
        settings=LIGHT,
    ),
    Row(
        "caller-prefork",
        "sends in children of the process that made the client, used before or not",
        JournalKind.POSTGRES,
        prefork,
        settings=LIGHT,
    ),
)
