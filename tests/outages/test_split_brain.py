"""Two servers with one journal: a standby was promoted, and its primary goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from consumer.journal import Leases, migrate
from consumer.status.availability import ServerOutage
from consumer.status.heartbeat import ForeignJournal, Heartbeat
from consumer.status.liveness import Liveness
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import Settings, load
from tests.eventually import HANG_S, eventually
from tests.stack.replication import Replicated, replicated

pytestmark = pytest.mark.waits

LEASE_S = 1.0
WITHIN_S = 60.0


@pytest.fixture(scope="module")
def split() -> Iterator[Replicated]:
    """Yield a journal on a primary that goes on, beside its standby that was promoted."""
    with replicated() as pair:
        migrate(pair.primary.address)
        pair.catch_up()
        pair.promote()
        yield pair


@pytest.fixture
def settings(redis_url: str, group: str) -> Settings:
    """Return settings with short leases."""
    redis = {"url": redis_url, "heartbeat_ttl_s": LEASE_S}
    return load(None, kafka={"group": group}, redis=redis, journal={"lease_s": LEASE_S})


@contextmanager
def living(
    settings: Settings, url: str, worker_id: str, foreign: list[ForeignJournal]
) -> Iterator[StatusStore]:
    """Let a worker live on the journal of one server; `foreign` is why it has to end."""
    store = StatusStore(connect(settings.redis), settings.kafka.group, settings.redis)
    leases = Leases(url, group=settings.kafka.group, worker_id=worker_id)
    with closing(store), closing(leases):
        heartbeat = Heartbeat(
            store=store,
            worker_id=worker_id,
            journal_id="one for both",
            heartbeat_ttl_s=settings.redis.heartbeat_ttl_s,
            load=dict,
            outage=ServerOutage("redis"),
            on_foreign_journal=foreign.append,
            on_run_id=lambda run_id: None,
        )
        liveness = Liveness(leases=leases, heartbeat=heartbeat, lease_s=settings.journal.lease_s)
        liveness.start()
        yield store
        liveness.end_renewals(HANG_S)


def test_who_works_on_the_server_that_was_failed_over_from_ends(
    split: Replicated, settings: Settings
) -> None:
    left: list[ForeignJournal] = []
    promoted: list[ForeignJournal] = []
    with living(settings, split.primary.address, "left", left):
        with living(settings, split.standby.address, "promoted", promoted) as store:
            eventually(lambda: left != [], timeout_s=WITHIN_S)
        assert promoted == []
        assert store.timeline_key in str(left[0])


def test_nobody_starts_on_the_server_that_was_failed_over_from(
    split: Replicated, settings: Settings
) -> None:
    with living(settings, split.standby.address, "promoted", []):
        pass
    with (
        pytest.raises(ForeignJournal, match="has gone on to timeline 2, and the one here is on 1"),
        living(settings, split.primary.address, "left", []),
    ):
        pass
