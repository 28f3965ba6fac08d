"""Behind a pooler in transaction mode nothing of ours stays on the connection that others get."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from urllib.parse import urlsplit

import psycopg
import pytest
from sqlalchemy import text

from consumer.journal import Journal, JournalState, Leases, VerdictKind, Work
from consumer.journal import migrate as migrate_journal
from consumer.journal.errors import JournalUnavailable
from consumer.journal.pauses import Pauses
from consumer.journal.redrive.resolving import PersonDecisions
from consumer.journal.transactional import Transactions
from feedback.errors import NotSent
from feedback.records.envelope import Envelope
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import load
from feedback.sql import stuck_sessions
from producer_client.outbox import migrate as migrate_outbox
from producer_client.outbox.fallback import Fallback
from producer_client.outbox.outbox_table import KafkaPlace, OutboxTable
from producer_client.sending.sync_bridge import at_once
from producer_client.submission import Prepared
from tests.consumer.journal.samples import claim, finish, kinds, new_id
from tests.eventually import eventually
from tests.stack.pgbouncer import pooler
from tests.stack.postgres import dsn

pytestmark = pytest.mark.waits

OURS = (
    "statement_timeout",
    "idle_in_transaction_session_timeout",
    "tcp_user_timeout",
    "synchronous_commit",
)
TIMEOUT_S = 7.0


@pytest.fixture
def pooled(postgres_url: str) -> Iterator[str]:
    """Yield the URL of an empty database through a pooler with one server connection."""
    with pooler(postgres_url) as url:
        yield url


def seen_by_a_stranger(url: str) -> dict[str, str]:
    """Return how the connection is set that somebody else gets."""
    shown = ", ".join(f"current_setting('{name}') AS {name}" for name in OURS)
    with psycopg.connect(dsn(url), prepare_threshold=None) as connection:
        row = connection.execute(f"SELECT pg_backend_pid(), {shown}".encode()).fetchone()
    assert row is not None
    return dict(zip(("pid", *OURS), map(str, row), strict=True))


def test_a_journal_works_through_it_and_leaves_the_connection_as_it_was(pooled: str) -> None:
    untouched = seen_by_a_stranger(pooled)
    migrate_journal(pooled)
    group, first, second = uuid.uuid4().hex, new_id(), new_id()
    with (
        closing(Journal(pooled, group=group, worker_id="me", statement_timeout_s=TIMEOUT_S)) as one,
        closing(Leases(pooled, group=group, worker_id="me")) as leases,
        closing(Transactions(pooled, group, "me")) as transactions,
    ):
        leases.register(5)
        assert kinds(one.apply(Work(claims=[claim(first)]))) == [VerdictKind.RUN]
        assert seen_by_a_stranger(pooled) == untouched
        one.apply(
            Work(claims=[claim(second, effect_kind="transactional")], finishes=[finish(first)])
        )
        with transactions.begin() as tx:
            tx.connection.execute(text("SELECT 1"))
            assert tx.finish(second, 1, JournalState.SUCCEEDED, None, None, None, False)
        assert leases.renew(5) is not None
        assert {row.state for row in one.unpublished(10, 0)} == {JournalState.SUCCEEDED}
        assert seen_by_a_stranger(pooled) == untouched


def test_the_outbox_works_through_it_and_leaves_the_connection_as_it_was(
    pooled: str,
) -> None:
    untouched = seen_by_a_stranger(pooled)
    migrate_outbox(pooled)
    group = uuid.uuid4().hex
    settings = load(None, kafka={"group": group}, outbox={"url": pooled, "notify": False})
    payload = StoredPayload("payments", b"k", b"v")
    asked = Prepared(Envelope("a", 1, 0), payload, "sha", named_by_caller=True)
    table = OutboxTable(pooled, group=group, lease_s=5, timeout_s=TIMEOUT_S)
    with closing(Fallback(pooled, settings)) as fallback, closing(table):
        assert at_once(fallback.take(asked, NotSent("a", "Kafka is away"))) is None
        assert seen_by_a_stranger(pooled) == untouched
        table.prepare()
        batch = table.take(limit=10, limit_bytes=1000)
        assert batch is not None
        (row,) = batch.rows
        assert table.settle(batch, sent={row.id: KafkaPlace(0, 0)}, parked={}) == [row]
        assert seen_by_a_stranger(pooled) == untouched


def test_what_a_stranger_left_on_the_connection_does_not_hold_for_us(
    pooled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    migrate_journal(pooled)
    group, name = uuid.uuid4().hex, new_id()
    # The look for stuck sessions takes longer, too, than the stranger allows. The library's own
    # first look at a server is under that limit: it must have time for that on a busy machine.
    monkeypatch.setattr(stuck_sessions, "_END", "SELECT pg_sleep(0.8)")
    with psycopg.connect(dsn(pooled), prepare_threshold=None, autocommit=True) as stranger:
        stranger.execute("SET default_transaction_isolation = 'serializable'")
        stranger.execute("SET synchronous_commit = off")
        stranger.execute("SET statement_timeout = '500ms'")
    with closing(Journal(pooled, group=group, worker_id="me")) as journal:
        with journal._session.transaction() as connection:
            connection.execute(text("SELECT pg_sleep(0.8)"))
            shown = [
                connection.execute(text(f"SHOW {name}")).scalar_one()
                for name in ("transaction_isolation", "synchronous_commit")
            ]
        assert shown == ["read committed", "on"]
        assert kinds(journal.apply(Work(claims=[claim(name)]))) == [VerdictKind.RUN]


def test_people_act_through_a_pooler_with_one_connection(pooled: str) -> None:
    untouched = seen_by_a_stranger(pooled)
    migrate_journal(pooled)
    group, name = uuid.uuid4().hex, new_id()
    with (
        closing(Journal(pooled, group=group, worker_id="me")) as journal,
        closing(Pauses(pooled, group=group)) as pauses,
        closing(PersonDecisions(pooled, group=group)) as decisions,
    ):
        journal.apply(Work(claims=[claim(name, effect_kind="external")]))
        journal.apply(Work(finishes=[finish(name, state=JournalState.IN_DOUBT)]))
        assert pauses.pause("payments", reason="the bank", by="zoe")
        assert [one.topic for one in pauses.paused()] == ["payments"]
        done, row = decisions.resolve(
            name, has_succeeded=True, result="1", code=None, reason="the list", by="zoe"
        )
        assert done and row is not None and row.state == JournalState.SUCCEEDED
        assert pauses.resume("payments", by="zoe") is not None
        assert seen_by_a_stranger(pooled) == untouched


def test_two_people_act_at_once_through_a_pooler_with_two_connections(postgres_url: str) -> None:
    migrate_journal(postgres_url)
    group = uuid.uuid4().hex
    with pooler(postgres_url, pool_size=2) as url, ThreadPoolExecutor(2) as threads:
        both = threading.Barrier(2)

        def act(topic: str) -> bool:
            with closing(Pauses(url, group=group)) as pauses:
                pauses.paused()
                both.wait(TIMEOUT_S)
                return pauses.pause(topic, reason="the bank", by="zoe")

        assert [*threads.map(act, ("payments", "invoices"))] == [True, True]


def test_a_person_acts_as_a_user_who_may_have_one_connection(postgres_url: str) -> None:
    migrate_journal(postgres_url)
    user = f"one_{uuid.uuid4().hex}"
    with psycopg.connect(dsn(postgres_url), autocommit=True) as owner:
        owner.execute(f"CREATE ROLE {user} LOGIN CONNECTION LIMIT 1".encode())
        owner.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {user}".encode())
        owner.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {user}".encode())
        try:
            place = urlsplit(postgres_url)
            netloc = f"{user}@{place.netloc.rpartition('@')[2]}"
            url = place._replace(netloc=netloc).geturl()
            with closing(Pauses(url, group=uuid.uuid4().hex)) as pauses:

                def acts() -> bool:
                    assert pauses.paused() == []
                    # The server may count one that was closed for a moment more.
                    with suppress(JournalUnavailable):
                        return pauses.pause("payments", reason="the bank", by="zoe")
                    return False

                eventually(acts)
        finally:
            owner.execute(f"DROP OWNED BY {user}".encode())
            owner.execute(f"DROP ROLE {user}".encode())
