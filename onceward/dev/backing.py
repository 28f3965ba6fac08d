"""Kafka and Redis of a session: found at the addresses of the settings, or started there."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from rich.console import Console

from feedback.errors import NotAvailable
from feedback.kafka.admin import administrator
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings
from onceward.dev.claims import held_lock, lock_of
from onceward.servers.jars import fetch_jars, jars_folder
from onceward.servers.kafka import SOON_MISSED, Broker, new_cluster_id
from onceward.servers.keeper import Keeper
from onceward.servers.launch import PREPARE_LIMIT_S, Server, launch_in
from onceward.servers.packages import require
from onceward.servers.ports import HOST
from onceward.servers.redis import Redis

ANSWER_LIMIT_S = 5.0
_LOCAL = (HOST, "localhost")


class DevServer(NamedTuple):
    """A server that a session needs.

    Attributes:
        name: for a person.
        address: host and port, empty where it can be none of ours.
        ask: raises NotAvailable when no such server answers.
        make: a server of ours on that port, with its data in a folder.
        programs: that it needs.
    """

    name: str
    address: str
    ask: Callable[[], None]
    make: Callable[[int, Path], Server]
    programs: tuple[str, ...]


def provide(
    settings: Settings,
    folder: Path,
    *,
    ends: ExitStack,
    say: Callable[[str], None],
    shares: bool = False,
) -> None:
    """Return when Kafka and Redis answer; those started here end with `ends`.

    Args:
        folder: of their data, which later sessions find again.
        say: is told of each server, and of a download.
        shares: whether to use servers of another session too, which may end with that.

    Raises:
        NotAvailable: one is away and cannot be started; names the next step.
        AnotherSession: one belongs to another session.
    """
    missing = []
    for place in (_kafka(settings), _redis(settings)):
        if _is_running(place, shares=shares):
            say(f"{place.name} found running{place.address and f' at {place.address}'}")
        else:
            missing.append(place)
    if not missing:
        return
    require(name for place in missing for name in place.programs)
    _fetch_broker(missing, say)
    for place in missing:
        ends.enter_context(held_lock(lock_of(place.address), subject=place.address))
    keeper = ends.enter_context(Keeper())
    for place in missing:
        _start(keeper, place, folder)
        say(f"{place.name} started at {place.address}, data and log in {_data(place, folder)}")


def _kafka(settings: Settings) -> DevServer:
    def ask() -> None:
        with administrator(settings.kafka, timeout_s=ANSWER_LIMIT_S) as admin:
            admin.cluster_id()

    url = urlsplit(f"//{settings.kafka.bootstrap_servers}")
    is_plain = settings.kafka.security_protocol == "PLAINTEXT"
    programs = ("java",) if jars_folder().is_dir() else ("java", "mvn")
    alone = "," not in settings.kafka.bootstrap_servers
    address = f"{HOST}:{url.port}" if alone and is_plain and url.hostname in _LOCAL else ""
    return DevServer("Kafka", address, ask, _broker, programs)


def _redis(settings: Settings) -> DevServer:
    def ask() -> None:
        store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
        with closing(store):
            store.server_version()

    url = urlsplit(settings.redis.url)
    is_plain = url.scheme == "redis" and url.password is None and url.hostname in _LOCAL
    address = f"{HOST}:{url.port or 6379}" if is_plain else ""
    return DevServer("Redis", address, ask, _redis_server, ("redis-server",))


def _is_running(place: DevServer, *, shares: bool) -> bool:
    """Tell whether the server answers; False where nothing listens and one can be started.

    Raises:
        NotAvailable: it is not ours to start, or another program has its port.
        AnotherSession: it is another session's, and would end with that.
    """
    if place.address and not _listens(place.address):
        return False
    try:
        place.ask()
    except NotAvailable as error:
        raise NotAvailable(
            f"{error}. `onceward dev` starts {place.name} only on a free port of {HOST}: "
            "start that server, or name another address"
        ) from error
    if place.address and not shares:
        with held_lock(lock_of(place.address), subject=place.address, shared=True):
            pass  # of no other session, which would end it
    return True


def _listens(address: str) -> bool:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), ANSWER_LIMIT_S).close()
    except OSError:
        return False
    return True


def _fetch_broker(missing: list[DevServer], say: Callable[[str], None]) -> None:
    target = jars_folder()
    if not target.is_dir() and any("mvn" in place.programs for place in missing):
        say(f"fetching Kafka by Maven, 54 MB, once, into {target}")
        with Console(stderr=True).status("Maven fetches Kafka, some 20 s"):
            fetch_jars()


def _start(keeper: Keeper, place: DevServer, folder: Path) -> None:
    """Start a server on the data of earlier sessions; a death before the end leaves those."""
    data = _data(place, folder)
    data.mkdir(parents=True, exist_ok=True)
    server = place.make(int(place.address.rpartition(":")[2]), data)
    steps = server.prepare(data)
    if _cluster_id(data) is None:
        for step in steps:
            keeper.run(step, timeout_s=PREPARE_LIMIT_S)
    launch_in(keeper, server, data)


def _data(place: DevServer, folder: Path) -> Path:
    return folder / place.name.lower()


def _broker(port: int, data: Path) -> Server:
    """Return a broker whose controller has the next port: its data remember that."""
    return Broker(
        cluster_id=_cluster_id(data) or new_cluster_id(),
        port=port,
        controller_port=port + 1,
        settings=SOON_MISSED,
        is_kept=True,
    )


def _redis_server(port: int, data: Path) -> Server:
    return Redis(port=port, keeps_data=True)


def _cluster_id(data: Path) -> str | None:
    """Return the cluster of a formatted data folder; None before it is formatted."""
    return next(_cluster_ids(data / "data" / "meta.properties"), None)


def _cluster_ids(file: Path) -> Iterator[str]:
    if file.is_file():
        for line in file.read_text().splitlines():
            name, _, value = line.partition("=")
            if name == "cluster.id":
                yield value
