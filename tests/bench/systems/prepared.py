"""A topic, a journal with its tables and a group's statuses, for a worker that is started later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.sections import RedisSection
from tests.bench.systems import onceward
from tests.stack import Servers


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a worker works with.

    Attributes:
        url: the journal's.
        environ: the worker's settings; a case may change them before it starts one.
        log: what its processes print.
    """

    topic: str
    url: str
    environ: dict[str, str]
    store: StatusStore
    log: Path


@contextmanager
def prepared(servers: Servers, *, journal: str, handlers: str, folder: Path) -> Iterator[Prepared]:
    """Yield them, all new; topic and database are gone after the block.

    Args:
        journal: `sqlite` or `postgres`.
        handlers: the worker's module of handlers.
    """
    with ExitStack() as opened:
        topic = opened.enter_context(onceward.fresh_topic(servers.kafka))
        url = opened.enter_context(onceward.fresh_journal(servers, journal, folder))
        environ = onceward.environment(servers, url, topic=topic, handlers=handlers)
        onceward.migrate(environ, folder)
        settings = RedisSection(url=servers.redis)
        store = StatusStore(connect(settings), environ["ONCEWARD_KAFKA__GROUP"], settings)
        opened.callback(store.close)
        yield Prepared(topic, url, environ, store, folder / "worker.log")
