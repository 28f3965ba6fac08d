"""A send within the caller's transaction: a row and nothing else, or nothing at all."""

import asyncio
import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, Engine, create_engine, event, insert, inspect, text, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session
from sqlalchemy.pool import NullPool, StaticPool

from feedback.errors import ExitCode, InvalidMessage, PayloadMismatch, SecurityKind, SendUnknown
from feedback.records.envelope import Record
from feedback.records.stored_payload import StoredPayload
from feedback.settings.settings import Settings
from feedback.status import State
from feedback.statuses import StatusWrite
from producer_client import AsyncClient, AsyncHandle, Client, Handle, outbox
from producer_client.outbox import (
    NotCommitted,
    NoTransaction,
    OutboxForbidden,
    OutboxUnavailable,
    OutboxVersionError,
)
from producer_client.outbox.tables import meta, metadata, row, waiting_index
from tests.producer_client.conftest import MakeClient, MakeSettings
from tests.producer_client.outbox.conftest import Rows
from tests.producer_client.waits import ends_in_vain

Records = Callable[[], list[Record]]


@pytest.fixture
def client(settings: Settings) -> Any:
    """Yield a client without an outbox of its own."""
    with Client(settings) as made:
        yield made


def test_what_is_rolled_back_was_never_there(
    client: Client, engine: Engine, rows: Rows, records: Records
) -> None:
    with engine.connect() as connection:
        handle = client.send({"a": 1}, request_id="a", connection=connection)
        assert handle.request_id == "a"
        connection.rollback()
    assert rows() == []
    assert handle.status().state is State.UNKNOWN
    # Nor does somebody send it who waits for it, or looks again.
    ends_in_vain(handle.wait, timeout_s=1.5)
    assert handle.status().state is State.UNKNOWN
    assert records() == []


def test_what_is_committed_is_a_row_and_nothing_else(
    client: Client, engine: Engine, rows: Rows, records: Records
) -> None:
    with Session(engine) as session, session.begin():
        client.send(b"\x00v", key="k", request_id="a", deadline_s=60, connection=session)
        client.send(None, key=b"", headers=[("h", b"\xff")], connection=session)
    first, second = rows()
    assert (first["request_id"], first["message_key"], first["value"]) == ("a", b"k", b"\x00v")
    assert (first["state"], first["attempt"], first["headers"]) == ("WAITING", 1, "[]")
    assert 0 < first["deadline_at"] - first["created_at"] <= 60_000
    assert (second["message_key"], second["value"]) == (b"", None)
    assert second["headers"] == '[["h", "ff"]]'
    assert client.status("a").state is State.UNKNOWN
    assert records() == []


def test_it_is_one_statement_within_the_callers_transaction(client: Client, engine: Engine) -> None:
    said: list[str] = []
    event.listen(engine, "before_cursor_execute", lambda *given: said.append(given[2]))
    with engine.begin() as connection:
        client.send(b"first", connection=connection)  # asks once for the version
        del said[:]
        client.send(b"second", connection=connection)
        assert len(said) == 1
        assert "onceward_outbox" in said[0]


def test_a_savepoint_takes_its_rows_with_it(client: Client, engine: Engine, rows: Rows) -> None:
    with engine.begin() as connection:
        client.send(b"kept", request_id="kept", connection=connection)
        inner = connection.begin_nested()
        client.send(b"dropped", request_id="dropped", connection=connection)
        inner.rollback()
    assert [one["request_id"] for one in rows()] == ["kept"]


def test_a_connection_in_autocommit_is_refused(client: Client, engine: Engine, rows: Rows) -> None:
    apart = engine.execution_options(isolation_level="AUTOCOMMIT")
    with apart.connect() as connection, pytest.raises(NoTransaction, match="autocommit") as caught:
        client.send(b"v", connection=connection)
    assert caught.value.exit_code is ExitCode.USAGE
    assert rows() == []


def test_a_driver_in_autocommit_is_refused_until_somebody_says_begin(
    make_settings: MakeSettings, sqlite_url: str
) -> None:
    outbox.migrate(sqlite_url)
    driver = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    made = create_engine("sqlite://", creator=lambda: driver, poolclass=StaticPool)
    with Client(make_settings()) as client, made.connect() as connection:
        with pytest.raises(NoTransaction):
            client.send(b"v", connection=connection)
        connection.exec_driver_sql("BEGIN")
        client.send(b"v", connection=connection)
        connection.commit()
    assert driver.execute("SELECT count(*) FROM onceward_outbox").fetchone() == (1,)
    driver.close()


@pytest.mark.parametrize("given", ["a string", 5, object()])
def test_what_is_no_connection_is_refused(client: Client, given: Any) -> None:
    with pytest.raises(NoTransaction, match="Connection or Session"):
        client.send(b"v", connection=given)


@pytest.mark.parametrize(
    "asked",
    [
        {"value": b"x" * 1_000_000},
        {"value": b"v", "request_id": "with space"},
        {"value": b"v", "topic": "no/topic"},
        {"value": b"v", "headers": [("onceward-request-id", b"other")]},
        {"value": b"v", "headers": [("onceward-outcome-id", b"\xff")]},
        {"value": b"v", "deadline_s": -1},
    ],
)
def test_what_cannot_be_sent_is_not_written(
    client: Client, engine: Engine, rows: Rows, asked: dict[str, Any]
) -> None:
    with engine.begin() as connection:
        with pytest.raises(InvalidMessage) as caught:
            client.send(connection=connection, **asked)
        assert "xxx" not in str(caught.value)
        # The transaction is as sound as it was.
        client.send(b"sound", request_id="sound", connection=connection)
    assert [one["request_id"] for one in rows()] == ["sound"]


def _succeeds(client: Client, one: Handle, **fields: str) -> None:
    """Let a request have succeeded, as a worker tells it."""
    write = StatusWrite(
        request_id=one.request_id,
        state=State.SUCCEEDED,
        attempt=1,
        generation=1,
        payload_sha256=one.status().payload_sha256 or "",
        fields=fields,
    )
    assert client.store.write([write]) == [None]


def test_a_handle_under_a_taken_id_shows_nothing_of_the_other_request(
    client: Client, engine: Engine
) -> None:
    other = client.send({"amount": 5}, request_id="a")
    _succeeds(client, other, result='"receipt of 5"')
    with engine.begin() as connection:
        handle = client.send({"amount": 500}, request_id="a", connection=connection)
    with pytest.raises(PayloadMismatch):
        handle.status()
    with pytest.raises(PayloadMismatch):
        handle.wait(5)
    assert other.wait(60).result == "receipt of 5"


def test_a_handle_of_asyncio_under_a_taken_id_shows_nothing_of_the_other_request(
    client: Client, settings: Settings
) -> None:
    other = client.send({"amount": 5}, request_id="a")

    async def main() -> None:
        payload = StoredPayload(other.payload.topic, None, b"another")
        async with AsyncClient(settings) as own:
            handle = AsyncHandle("a", own, payload, None, written_at=1)
            with pytest.raises(PayloadMismatch):
                await handle.status()
            with pytest.raises(PayloadMismatch):
                await handle.wait(5)

    asyncio.run(main())


def test_a_handle_shows_nothing_of_a_request_for_another_topic(
    client: Client, engine: Engine
) -> None:
    other = client.send({"amount": 5}, request_id="a")
    _succeeds(client, other, topic=other.payload.topic)
    with engine.begin() as connection:
        # The same payload: a relay parks its row, and it never runs.
        handle = client.send({"amount": 5}, topic="shipping", request_id="a", connection=connection)
    with pytest.raises(PayloadMismatch):
        handle.status()
    with pytest.raises(PayloadMismatch):
        handle.wait(5)
    assert other.status().state is State.SUCCEEDED


def test_an_id_that_this_process_wrote_into_the_outbox_may_have_been_sent(
    client: Client, make_client: MakeClient, refusing: str, engine: Engine
) -> None:
    with engine.begin() as connection:
        client.send(b"v", request_id="order-7", connection=connection)
    cut_off = make_client(
        kafka={"bootstrap_servers": refusing}, redis={"timeout_s": 30}, send_timeout_s=2
    )
    # Redis knows nothing of it until a relay takes the row up.
    with pytest.raises(SendUnknown, match="this process did"):
        cut_off.send(b"v", request_id="order-7")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_database_without_an_outbox_says_what_to_do(
    make_settings: MakeSettings, kind: str, request: pytest.FixtureRequest
) -> None:
    engine = create_engine(request.getfixturevalue(f"{kind}_url"), poolclass=NullPool)
    with Client(make_settings()) as client, engine.connect() as connection:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
        connection.commit()
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        with pytest.raises(OutboxVersionError, match="outbox migrate") as caught:
            client.send(b"v", connection=connection)
        assert caught.value.exit_code is ExitCode.NOT_AVAILABLE
        connection.rollback()
        assert connection.execute(text("SELECT count(*) FROM orders")).scalar() == 0


@pytest.mark.parametrize(("version", "said"), [("0", "version 0"), ("99", "newer")])
def test_an_outbox_of_another_version_is_left_alone(
    client: Client, engine: Engine, rows: Rows, version: str, said: str
) -> None:
    with engine.begin() as connection:
        connection.execute(update(meta).values(value=version))
    with engine.connect() as connection, pytest.raises(OutboxVersionError, match=said):
        client.send(b"v", connection=connection)
    assert rows() == []


def test_an_outbox_of_the_first_version_is_refused_until_it_is_migrated(
    make_settings: MakeSettings, outbox_url: str, engine: Engine, rows: Rows
) -> None:
    index = "CREATE INDEX onceward_outbox_waiting ON onceward_outbox"
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP INDEX onceward_outbox_waiting")
        if engine.dialect.name == "postgresql":
            column = 'ALTER topic TYPE text COLLATE "default"'
            connection.exec_driver_sql(f"ALTER TABLE onceward_outbox {column}")
        connection.exec_driver_sql(f"{index} (\"group\", lane, id) WHERE state = 'WAITING'")
        connection.execute(update(meta).values(value="1"))
    with Client(make_settings()) as client:
        with engine.begin() as connection, pytest.raises(OutboxVersionError, match="migrate"):
            client.send(b"v", connection=connection)
        assert outbox.migrate(outbox_url) == outbox.OutboxMigrated(1, 2)
        assert outbox.migrate(outbox_url) == outbox.OutboxMigrated(2, 2)
        with engine.begin() as connection:
            client.send(b"v", connection=connection)
    assert len(rows()) == 1
    (found,) = [
        one for one in inspect(engine).get_indexes(row.name) if one["name"] == waiting_index.name
    ]
    assert found["column_names"] == ["group", "lane", "topic", "id"]


def test_tables_of_a_users_own_migration_are_as_good(
    make_settings: MakeSettings, sqlite_url: str, postgres_url: str
) -> None:
    for url in (sqlite_url, postgres_url):
        engine = create_engine(url, poolclass=NullPool)
        with engine.begin() as connection:
            metadata.create_all(connection)
            outbox.create(connection)  # once more changes nothing
        with Client(make_settings()) as client, engine.begin() as connection:
            client.send(b"v", connection=connection)


def test_a_database_that_can_only_be_read_is_told_at_once(
    client: Client, outbox_url: str, rows: Rows, tmp_path: Path
) -> None:
    if outbox_url.startswith("sqlite"):
        path = outbox_url.removeprefix("sqlite:///")
        engine = create_engine(f"sqlite:///file:{path}?mode=ro&uri=true", poolclass=NullPool)
    else:
        options = {"options": "-c default_transaction_read_only=on"}
        engine = create_engine(outbox_url, poolclass=NullPool, connect_args=options)
    with engine.connect() as connection, pytest.raises(OutboxUnavailable):
        client.send(b"v", connection=connection)
    assert rows() == []


def test_a_transaction_that_has_failed_is_no_outage(client: Client, postgres_url: str) -> None:
    outbox.migrate(postgres_url)
    engine = create_engine(postgres_url, poolclass=NullPool)
    with engine.connect() as connection:
        with pytest.raises(DBAPIError):
            connection.execute(text("SELECT 1 / 0"))
        with pytest.raises(NoTransaction, match="has failed before"):
            client.send(b"v", connection=connection)
        connection.rollback()
        client.send(b"v", connection=connection)


def test_it_is_written_where_the_connection_says_that_tables_lie(
    client: Client, postgres_url: str
) -> None:
    engine = create_engine(postgres_url, poolclass=NullPool)
    with engine.connect() as connection:
        # The schema is of this transaction, as all the rest.
        connection.execute(text("CREATE SCHEMA tenant"))
        tenant = connection.execution_options(schema_translate_map={None: "tenant"})
        metadata.create_all(tenant)
        client.send(b"v", connection=tenant)
        count = connection.execute(text("SELECT count(*) FROM tenant.onceward_outbox")).scalar()
        assert count == 1
        connection.rollback()


def test_a_user_without_rights_is_told_which_it_needs(client: Client, postgres_url: str) -> None:
    outbox.migrate(postgres_url)
    engine = create_engine(postgres_url, poolclass=NullPool)
    with engine.connect() as connection:
        # The role is of this transaction, as all the rest.
        connection.execute(text("CREATE ROLE shop"))
        connection.execute(text("SET LOCAL ROLE shop"))
        with pytest.raises(OutboxUnavailable, match="grant it SELECT and INSERT"):
            client.send(b"v", connection=connection)
        connection.rollback()
        connection.execute(text("CREATE ROLE shop"))
        connection.execute(text("GRANT SELECT, INSERT ON onceward_outbox TO shop"))
        connection.execute(text("GRANT USAGE ON SEQUENCE onceward_outbox_id_seq TO shop"))
        connection.execute(text("GRANT SELECT ON onceward_outbox_meta TO shop"))
        connection.execute(text("SET LOCAL ROLE shop"))
        client.send(b"v", connection=connection)
        connection.rollback()


GRANTED = """
    CREATE ROLE {role};
    REVOKE USAGE ON SCHEMA public FROM PUBLIC;
    GRANT USAGE ON SCHEMA public TO {role};
    GRANT SELECT, INSERT ON onceward_outbox TO {role};
    GRANT USAGE ON SEQUENCE onceward_outbox_id_seq TO {role};
    GRANT SELECT ON onceward_outbox_meta TO {role};
"""


@pytest.mark.parametrize("was_seen", [False, True])
def test_a_schema_that_the_user_may_not_use_is_a_missing_right_and_no_missing_table(
    make_settings: MakeSettings, postgres_url: str, was_seen: bool
) -> None:
    """In the caller's transaction, which is over at once: nothing can be asked afterwards."""
    outbox.migrate(postgres_url)
    role = f"shop_{uuid.uuid4().hex}"
    engine = create_engine(postgres_url, poolclass=NullPool)
    with (
        Client(make_settings()) as client,
        engine.connect() as owner,
        engine.connect() as connection,
    ):
        owner.execute(text(GRANTED.format(role=role)))
        owner.commit()

        def send() -> None:
            connection.execute(text(f"SET LOCAL ROLE {role}"))
            client.send(b"v", connection=connection)

        if was_seen:
            send()
            connection.commit()
        owner.execute(text(f"REVOKE USAGE ON SCHEMA public FROM {role}"))
        owner.commit()
        for _ in range(2):
            with pytest.raises(OutboxForbidden, match="GRANT USAGE ON SCHEMA public") as caught:
                send()
            connection.rollback()
            assert caught.value.fault and caught.value.fault.kind is SecurityKind.RIGHT
        owner.execute(text(f"GRANT USAGE ON SCHEMA public TO {role}"))
        owner.commit()
        send()
        connection.rollback()
        owner.execute(text(f"DROP OWNED BY {role}; DROP ROLE {role}"))
        owner.commit()


def test_a_full_database_is_told_at_once_and_has_nothing_of_it(
    client: Client, sqlite_url: str
) -> None:
    outbox.migrate(sqlite_url)
    engine = create_engine(sqlite_url, poolclass=NullPool)
    with engine.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages + 1}")
        with pytest.raises(OutboxUnavailable, match="FULL") as caught:
            client.send(b"secret" * 10_000, connection=connection)
        assert "secret" not in str(caught.value)
        connection.rollback()
        count = connection.execute(text("SELECT count(*) FROM onceward_outbox")).scalar()
        assert count == 0


def test_a_server_that_goes_away_in_the_transaction_is_told_at_once(
    client: Client, postgres_url: str
) -> None:
    outbox.migrate(postgres_url)
    engine = create_engine(postgres_url, poolclass=NullPool)
    with engine.connect() as connection, engine.connect() as admin:
        connection.execute(text("CREATE TABLE orders (id INTEGER)"))
        connection.commit()
        connection.execute(text("INSERT INTO orders VALUES (1)"))
        number = connection.execute(text("SELECT pg_backend_pid()")).scalar_one()
        admin.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": number})
        with pytest.raises(OutboxUnavailable):
            client.send(b"v", connection=connection)
        orders = admin.execute(text("SELECT count(*) FROM orders")).scalar()
        assert (orders, admin.execute(text("SELECT count(*) FROM onceward_outbox")).scalar()) == (
            0,
            0,
        )


def test_a_hostile_id_key_and_topic_are_data(client: Client, user: Connection, rows: Rows) -> None:
    name = "'); DROP TABLE onceward_outbox; --".replace(" ", "_")
    client.send(b"v", key="k' OR '1'='1", request_id=name, connection=user)
    user.commit()
    assert rows()[0]["request_id"] == name
    assert rows()[0]["message_key"] == b"k' OR '1'='1"


def test_a_row_that_the_database_refuses_is_no_outage(
    client: Client, engine: Engine, rows: Rows
) -> None:
    with engine.begin() as connection:
        client.send(b"v", request_id="a", connection=connection)
        connection.execute(text("CREATE UNIQUE INDEX only_once ON onceward_outbox (request_id)"))
    with engine.connect() as connection, pytest.raises(outbox.RowRefused) as caught:
        client.send(b"v", request_id="a", connection=connection)
    assert caught.value.__cause__ is None
    assert len(rows()) == 1


def test_the_version_is_written_by_create_all(sqlite_url: str) -> None:
    engine = create_engine(sqlite_url, poolclass=NullPool)
    metadata.create_all(engine)
    with engine.begin() as connection:
        assert connection.execute(meta.select()).all() == [("schema_version", "2")]
        connection.execute(meta.delete())
        connection.execute(insert(meta).values(name="schema_version", value="3"))
        with pytest.raises(OutboxVersionError, match="newer"):
            outbox.create(connection)


def test_a_wait_in_the_transaction_that_wrote_its_row_is_refused(
    client: Client, engine: Engine
) -> None:
    with engine.connect() as connection:
        handle = client.send(b"v", request_id="a", connection=connection)
        with pytest.raises(NotCommitted, match="commit first, then wait"):
            handle.wait(5)
        connection.commit()
        ends_in_vain(handle.wait, timeout_s=0.3)
        client.send(b"v", request_id="b", connection=connection)
        ends_in_vain(handle.wait, timeout_s=0.3)
    with Session(engine) as session:
        handle = client.send(b"v", request_id="c", connection=session)
        with pytest.raises(NotCommitted):
            client.wait(handle, timeout_s=5)
        session.rollback()
        ends_in_vain(handle.wait, timeout_s=0.3)
