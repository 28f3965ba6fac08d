"""A send within a transaction of Django's: a row that is undone with it, or a refusal."""

from __future__ import annotations

import asyncio
import unittest
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection, connections, transaction
from django.db.migrations.exceptions import IrreversibleError
from django.db.transaction import TransactionManagementError
from django.db.utils import NotSupportedError
from django.test import TestCase
from sqlalchemy import Engine, create_engine, inspect, make_url, text
from sqlalchemy.pool import NullPool

from feedback.errors import InvalidMessage
from feedback.records.envelope import Record
from feedback.settings.settings import Settings
from feedback.status import State
from producer_client import AsyncClient, Client, outbox
from producer_client.outbox import (
    NotCommitted,
    NoTransaction,
    OutboxForbidden,
    OutboxUnavailable,
    OutboxVersionError,
    RowRefused,
    django_writing,
)
from tests.documents import code_shown_in, examples
from tests.eventually import eventually
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox import shop
from tests.producer_client.outbox.conftest import Rows, relaying
from tests.producer_client.waits import ends_in_vain

Records = Callable[[], list[Record]]


def _django_database(url: str) -> dict[str, Any]:
    """Return Django's settings of a database."""
    parts = make_url(url)
    if parts.get_backend_name() == "sqlite":
        return {"ENGINE": "django.db.backends.sqlite3", "NAME": parts.database}
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.database,
        "USER": parts.username,
        "PASSWORD": parts.password or "",
        "HOST": parts.host or "",
        "PORT": parts.port or "",
    }


@pytest.fixture(params=["sqlite", "postgres"])
def outbox_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """Yield the URL of an empty database that is Django's default."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    shop.use_databases(default=_django_database(url))
    yield url
    shop.use_databases()


@pytest.fixture
def migrated(outbox_url: str) -> None:
    """Let Django's migrations make the tables, and a model's."""
    call_command("migrate", "onceward", verbosity=0)
    with connection.schema_editor() as editor:
        editor.create_model(shop.Order)


@pytest.fixture
def client(settings: Settings, migrated: None) -> Iterator[Client]:
    """Yield a client without an outbox of its own."""
    with Client(settings) as made:
        yield made


def _ids(rows: Rows) -> list[str]:
    return [one["request_id"] for one in rows()]


def test_a_page_shows_the_code_that_is_tested() -> None:
    assert code_shown_in("tests/producer_client/outbox/shop.py") in examples().values()


def test_a_committed_order_is_paid_by_a_relay(
    settings: Settings, client: Client, rows: Rows, records: Records, monkeypatch: Any
) -> None:
    topic, send = settings.client.topic, client.send
    monkeypatch.setattr(
        client, "send", lambda value, **given: send(value, **given | {"topic": topic})
    )
    handle = shop.place(client, "ann")
    assert handle.written_at == rows()[0]["created_at"]
    assert handle.status().state is State.UNKNOWN
    with relaying(settings):
        eventually(lambda: handle.status().state is State.PENDING, timeout_s=30)
    (record,) = records()
    assert (record.key, record.value) == (b"ann", b'{"order":1}')


def test_a_rolled_back_order_is_not_asked_for(client: Client, rows: Rows) -> None:
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        shop.place(client, "ann")
        raise ZeroDivisionError
    assert rows() == []
    assert not shop.Order.objects.exists()


def test_a_savepoint_takes_its_rows_with_it(client: Client, rows: Rows) -> None:
    with transaction.atomic():
        client.send(b"kept", request_id="kept", using="default")
        with pytest.raises(ZeroDivisionError), transaction.atomic():
            client.send(b"dropped", request_id="dropped", using="default")
            raise ZeroDivisionError
        mark = transaction.savepoint()
        client.send(b"undone", request_id="undone", using="default")
        transaction.savepoint_rollback(mark)
    assert _ids(rows) == ["kept"]


def test_a_transaction_without_a_block_is_the_callers_too(client: Client, rows: Rows) -> None:
    transaction.set_autocommit(False)
    try:
        client.send(b"dropped", request_id="dropped", using="default")
        transaction.rollback()
        client.send(b"kept", request_id="kept", using="default")
        transaction.commit()
    finally:
        transaction.set_autocommit(True)
    assert _ids(rows) == ["kept"]


def test_without_a_transaction_it_is_refused(client: Client, rows: Rows) -> None:
    with pytest.raises(NoTransaction, match=r"send inside `with transaction\.atomic"):
        client.send(b"v", using="default")
    with transaction.atomic():
        pass
    with pytest.raises(NoTransaction):
        client.send(b"v", using="default")
    assert rows() == []


def test_the_transaction_of_a_test_case_is_not_the_callers(client: Client, rows: Rows) -> None:
    refusals: list[NoTransaction] = []

    class Views(TestCase):  # type: ignore[misc]  # Django has no types
        """A test of a user's."""

        def test_view(self) -> None:
            try:
                client.send(b"v", using="default")
            except NoTransaction as error:
                refusals.append(error)
            with transaction.atomic():
                client.send(b"v", using="default")

    result = unittest.TestResult()
    unittest.TestSuite([Views("test_view")]).run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])
    assert len(refusals) == 1
    assert rows() == []


def test_a_commit_past_django_is_seen(client: Client, rows: Rows) -> None:
    def send() -> None:
        with transaction.atomic():
            client.send(b"v", request_id="before", using="default")
            connection.connection.execute("COMMIT")
            if connection.vendor == "postgresql":
                connection.connection.autocommit = True
            with pytest.raises(NoTransaction, match="is over"):
                client.send(b"v", request_id="after", using="default")
            connection.connection.execute("BEGIN")

    send()
    assert _ids(rows) == ["before"]


def test_a_broken_transaction_is_refused(client: Client, rows: Rows) -> None:
    with transaction.atomic():
        with pytest.raises(ZeroDivisionError), transaction.atomic(savepoint=False):
            raise ZeroDivisionError
        with pytest.raises(NoTransaction, match="rolled back"):
            client.send(b"v", using="default")
    assert rows() == []


@pytest.mark.parametrize(
    ("using", "reason"),
    [("nowhere", "no such alias"), (True, "give an alias"), ("dummy", "not in unknown")],
)
def test_another_database_is_refused(
    make_settings: MakeSettings, using: Any, reason: str, tmp_path: Path
) -> None:
    shop.use_databases(dummy={"ENGINE": "django.db.backends.dummy"})
    with Client(make_settings()) as client, pytest.raises(NoTransaction, match=reason):
        client.send(b"v", using=using)


@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_a_driver_whose_faults_we_cannot_sort_is_refused(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = SimpleNamespace(__name__="psycopg2")
    monkeypatch.setattr(type(connections["default"]), "Database", other)
    with pytest.raises(NoTransaction, match="install psycopg"):
        client.send(b"v", using="default")


def test_a_transaction_of_one_database_is_none_of_another(
    client: Client, rows: Rows, tmp_path: Path, outbox_url: str
) -> None:
    other = {"ENGINE": "django.db.backends.sqlite3", "NAME": str(tmp_path / "other.db")}
    shop.use_databases(default=_django_database(outbox_url), other=other)
    with transaction.atomic(using="other"), pytest.raises(NoTransaction, match="autocommit"):
        client.send(b"v", using="default")
    assert rows() == []


def test_two_transactions_for_one_send_are_refused(client: Client, engine: Engine) -> None:
    with engine.connect() as own, transaction.atomic(), pytest.raises(NoTransaction, match="both"):
        client.send(b"v", connection=own, using="default")


def test_a_connection_of_djangos_is_told_of_using(client: Client) -> None:
    given: Any = connection
    with pytest.raises(NoTransaction, match="of Django: using="):
        client.send(b"v", connection=given)


def test_an_asynchronous_client_says_where_such_a_send_belongs(settings: Settings) -> None:
    async def main() -> None:
        async with AsyncClient(settings) as client:
            with pytest.raises(NoTransaction, match="sync_to_async"):
                await client.send(b"v", using="default")

    asyncio.run(main())


def test_it_is_one_statement_and_django_keeps_no_payload(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "force_debug_cursor", True)
    with transaction.atomic():
        client.send(b"first", using="default")  # asks once for the version
        assert django_writing._seen[connections["default"]]
        client.send(b"4111 1111", key="4111 1111", using="default")
    assert "4111" not in str(connection.queries)


def test_a_request_that_cannot_be_sent_leaves_the_transaction_sound(
    client: Client, rows: Rows
) -> None:
    with transaction.atomic():
        with pytest.raises(InvalidMessage):
            client.send(b"x" * 2_000_000, using="default")
        client.send(b"sound", request_id="sound", using="default")
    assert _ids(rows) == ["sound"]


@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_after_a_row_that_postgresql_refused_the_block_is_known_to_be_broken(
    client: Client, rows: Rows
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE onceward_outbox ADD CHECK (request_id <> 'refused')")
    with pytest.raises(TransactionManagementError), transaction.atomic():
        client.send(b"v", request_id="taken", using="default")
        with pytest.raises(RowRefused):
            client.send(b"v", request_id="refused", using="default")
        with pytest.raises(NoTransaction, match="rolled back"):
            client.send(b"v", request_id="after", using="default")
        shop.Order.objects.create(customer="ann")
    assert rows() == []


def test_a_database_without_an_outbox_is_told_the_remedy(
    make_settings: MakeSettings, outbox_url: str
) -> None:
    with (
        Client(make_settings()) as client,
        pytest.raises(OutboxVersionError, match="no outbox"),
        transaction.atomic(),
    ):
        client.send(b"v", using="default")


@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
@pytest.mark.parametrize("was_seen", [False, True])
def test_a_schema_that_the_user_may_not_use_is_a_missing_right(
    client: Client, outbox_url: str, was_seen: bool
) -> None:
    role = f"shop_{uuid.uuid4().hex}"

    def send() -> None:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"SET LOCAL ROLE {role}")
            client.send(b"v", using="default")
            transaction.set_rollback(True)

    with connection.cursor() as cursor:
        cursor.execute(f"CREATE ROLE {role}; REVOKE USAGE ON SCHEMA public FROM PUBLIC")
        grant = f"GRANT USAGE ON SCHEMA public TO {role}"
        cursor.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA public TO {role}")
        cursor.execute(f"GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role}")
        if was_seen:
            cursor.execute(grant)
            send()
            cursor.execute(f"REVOKE USAGE ON SCHEMA public FROM {role}")
        for _ in range(2):
            with pytest.raises(OutboxForbidden, match="GRANT USAGE ON SCHEMA public"):
                send()
        cursor.execute(grant)
        send()
        cursor.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_a_database_that_is_away_is_an_outage(client: Client, outbox_url: str) -> None:
    away = _django_database(outbox_url) | {"HOST": "127.0.0.1", "PORT": "1"}
    shop.use_databases(default=away)
    with pytest.raises(OutboxUnavailable):
        client.send(b"v", using="default")


@pytest.mark.parametrize("outbox_url", ["postgres"], indirect=True)
def test_a_connection_that_was_cut_is_an_outage(client: Client, outbox_url: str) -> None:
    with pytest.raises(OutboxUnavailable), transaction.atomic():
        client.send(b"v", using="default")
        admin = create_engine(outbox_url, poolclass=NullPool)
        with admin.connect() as own:
            pid = connection.connection.info.backend_pid
            own.exec_driver_sql(f"SELECT pg_terminate_backend({pid})")
        client.send(b"v", using="default")


# the migration -----------------------------------------------------------------------------


_SQLITE = "SELECT name, sql FROM sqlite_master WHERE name LIKE 'onceward%'"
_POSTGRES = """
    SELECT tablename || indexname, indexdef FROM pg_indexes
        WHERE schemaname = 'public' AND tablename LIKE 'onceward%'
    UNION ALL SELECT table_name || '.' || column_name,
        concat_ws(' ', data_type, is_nullable, column_default, collation_name)
        FROM information_schema.columns
        WHERE table_schema = 'public' AND table_name LIKE 'onceward%'
"""


def _schema(url: str) -> dict[str, str]:
    engine = create_engine(url, poolclass=NullPool)
    query = _SQLITE if engine.dialect.name == "sqlite" else _POSTGRES
    with engine.connect() as own:
        found = own.execute(text(query)).all()
    return {str(name): str(definition).strip() for name, definition in found}


def test_the_migration_makes_the_tables_that_the_command_makes(
    outbox_url: str, migrated: None
) -> None:
    by_django = _schema(outbox_url)
    assert outbox.migrate(outbox_url) == outbox.OutboxMigrated(2, 2)
    with connection.cursor() as cursor:
        for table in ("onceward_outbox", "onceward_outbox_lane", "onceward_outbox_meta"):
            cursor.execute(f"DROP TABLE {table}")
    outbox.migrate(outbox_url)
    assert len(by_django) >= 5
    assert _schema(outbox_url) == by_django


def test_the_migration_keeps_tables_that_are_there_and_refuses_old_ones(outbox_url: str) -> None:
    outbox.migrate(outbox_url)
    call_command("migrate", "onceward", verbosity=0)
    call_command("migrate", "onceward", "zero", fake=True, verbosity=0)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE onceward_outbox_meta SET value = '1'")
    with pytest.raises(OutboxVersionError):
        call_command("migrate", "onceward", verbosity=0)


def test_no_migration_takes_rows_away(client: Client, rows: Rows) -> None:
    with transaction.atomic():
        client.send(b"v", request_id="a", using="default")
    with pytest.raises(IrreversibleError):
        call_command("migrate", "onceward", "zero", verbosity=0)
    assert _ids(rows) == ["a"]


def test_another_kind_of_database_is_named(
    monkeypatch: pytest.MonkeyPatch, outbox_url: str
) -> None:
    monkeypatch.setattr(type(connections["default"]), "vendor", "mysql")
    with pytest.raises(NotSupportedError, match=r"not in mysql.*router"):
        call_command("migrate", "onceward", verbosity=0)


def test_models_and_migrations_agree(outbox_url: str) -> None:
    call_command("makemigrations", "onceward", check=True, dry_run=True, verbosity=0)
    assert inspect(create_engine(outbox_url, poolclass=NullPool)).get_table_names() == []


def test_a_wait_in_the_block_that_wrote_its_row_is_refused(
    client: Client, at_once: Callable[..., Any]
) -> None:
    with transaction.atomic():
        with transaction.atomic():
            handle = client.send(b"v", request_id="a", using="default")
        with pytest.raises(NotCommitted, match="commit first, then wait"):
            handle.wait(5)
        elsewhere = at_once(ends_in_vain, handle.wait, timeout_s=0.3)  # while this one could commit
        elsewhere.result(60)
    ends_in_vain(handle.wait, timeout_s=0.3)
    with transaction.atomic():
        ends_in_vain(handle.wait, timeout_s=0.3)
