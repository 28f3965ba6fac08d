"""The worker's loop on a real journal, with nothing running."""

from collections.abc import Iterator

import pytest
from sqlalchemy import create_engine

from consumer.buffer import Buffer
from consumer.journal import Journal, Published, migrate
from consumer.pool import Pool, PoolSettings
from consumer.teller import Teller
from consumer.worker import Worker
from feedback.clock import monotonic_s
from feedback.redis_server import connect
from feedback.settings import RedisSection
from feedback.store import StatusStore
from tests.eventually import eventually


class Forever:
    """A lease that never ends."""

    def lease_holds(self, now_s: float) -> bool:
        return True

    def may_sweep(self, now_s: float) -> bool:
        return True


class ToldOnce(Teller):
    """A teller to which Redis has confirmed one final status."""

    def __init__(self, store: StatusStore) -> None:
        super().__init__(store)
        self._told.append(Published("a", 1, "SUCCEEDED"))


@pytest.fixture
def pool() -> Iterator[Pool]:
    pool = Pool(settings=PoolSettings(handlers=(), group="g"))
    yield pool
    pool.kill()


def test_a_worker_with_nothing_but_confirmations_to_write_finds_its_journal_again(
    sqlite_url: str, redis_url: str, group: str, pool: Pool
) -> None:
    migrate(sqlite_url)
    journal = Journal(sqlite_url, group=group, worker_id="me", statement_timeout_s=0.2)
    settings = RedisSection(url=redis_url)
    store = StatusStore(connect(settings), group, settings)
    worker = Worker(
        worker_id="me",
        buffer=Buffer(8),
        journal=journal,
        pool=pool,
        teller=ToldOnce(store),
        lease=Forever(),
        slots=2,
        journal_wait_s=30.0,
        on_backlog=lambda backlog: None,
    )

    def turned(away: bool) -> bool:
        pool.wake()
        worker.turn()
        return worker.journal_away is away

    with create_engine(sqlite_url).connect() as blocking:
        blocking.exec_driver_sql("BEGIN EXCLUSIVE")
        began_s = monotonic_s()
        eventually(lambda: turned(True), timeout_s=20)
        blocking.rollback()
    eventually(lambda: turned(False), timeout_s=20)
    assert monotonic_s() - began_s < 20
    journal.close()
    store.close()
