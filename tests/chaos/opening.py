"""Opening a scene: its own servers, an empty journal, and the end of it all after the block."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from onceward.servers.keeper import Keeper
from tests.chaos.ground import Ground, Linked, ground_of
from tests.chaos.place import JOURNAL_FILE, REAL, JournalUrls, Modules, Place
from tests.chaos.row import JournalKind, Row
from tests.chaos.scene import Scene
from tests.stack import Servers
from tests.stack.postgres import fresh_database


@contextmanager
def open_scene(
    row: Row,
    *,
    seed: int,
    short: bool,
    servers: Servers,
    folder: Path,
    modules: Modules = REAL,
) -> Iterator[Scene]:
    """Empty the row's folder, start all that it needs, and end it after the block.

    Args:
        modules: whose commands are worker and resender.

    Raises:
        NotAvailable: a server is missing.
        StackError: one did not start.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as ends:
        keeper = ends.enter_context(Keeper())
        ground = ends.enter_context(ground_of(row, servers, keeper))
        journal = _journal(row, ground, keeper, ends, folder)
        place = Place(
            row,
            folder=folder,
            servers=ground.servers,
            journal=journal,
            modules=modules,
        )
        scene = Scene(row, place, seed=seed, short=short, keeper=keeper, ground=ground)
        ends.callback(scene.close)
        scene.open()
        yield scene


def _journal(
    row: Row, ground: Ground, keeper: Keeper, ends: ExitStack, folder: Path
) -> JournalUrls:
    """Return an empty journal."""
    if row.journal is JournalKind.SQLITE:
        url = f"sqlite:///{folder / JOURNAL_FILE}"
        return JournalUrls(url, url)
    url = ground.servers.postgres
    if ground.own_postgres is None and ground.own_pair is None:
        url = ends.enter_context(fresh_database(url, f"chaos_{uuid.uuid4().hex}"))
        # Workers are gone before their database is.
        ends.callback(keeper.close)
    link = ground.links.get(Linked.POSTGRES)
    return JournalUrls(url, url if link is None else link.at(url))
