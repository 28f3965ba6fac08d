"""What bounds a transaction whose owner stands still; the rights of new SQLite files."""

import uuid
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from feedback.sql.engine import open_engine
from tests.eventually import eventually
from tests.kit.file_rights import everything_allowed, rights
from tests.stack import Servers
from tests.stack.postgres import fresh_database

TIMEOUT_S = 1.0
# What the kernel buffers of an answer is some megabytes; this is 40.
LARGE = b"SELECT repeat('x', 4000) FROM generate_series(1, 10000)"


def test_a_new_sqlite_file_and_those_beside_it_are_their_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "new.db"
    engine = open_engine(f"sqlite:///{path}", timeout_s=TIMEOUT_S, pool={"poolclass": NullPool})
    with everything_allowed(), engine.connect() as connection:
        connection.execute(text("CREATE TABLE account (id INTEGER)"))
        found = {one.name: rights(one) for one in tmp_path.iterdir()}
    assert found == {"new.db": 0o600, "new.db-wal": 0o600, "new.db-shm": 0o600}


def test_the_rights_of_a_sqlite_file_that_is_there_stay(tmp_path: Path) -> None:
    path = tmp_path / "shared.db"
    path.touch()
    path.chmod(0o640)
    engine = open_engine(f"sqlite:///{path}", timeout_s=TIMEOUT_S, pool={"poolclass": NullPool})
    with engine.connect() as connection:
        connection.execute(text("CREATE TABLE account (id INTEGER)"))
    assert rights(path) == 0o640


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_makes_no_file(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with open_engine(url, timeout_s=TIMEOUT_S, pool={"poolclass": NullPool}).connect():
        assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("asked", [None, LARGE], ids=["idle", "in an answer"])
def test_who_stands_still_in_a_transaction_gives_up_its_locks(
    servers: Servers, asked: bytes | None
) -> None:
    with fresh_database(servers.postgres, f"paused_{uuid.uuid4().hex}") as url:
        engine = open_engine(url, timeout_s=TIMEOUT_S, pool={"poolclass": NullPool})
        other = create_engine(url, poolclass=NullPool)
        with other.begin() as connection:
            connection.execute(text("CREATE TABLE account (id INTEGER)"))
            connection.execute(text("INSERT INTO account VALUES (1)"))
        still = engine.connect()
        still.execute(text("UPDATE account SET id = 2"))
        if asked is not None:
            driver = still.connection.driver_connection
            assert driver is not None
            driver.pgconn.send_query(asked)  # and nobody reads the answer

        def is_free() -> bool:
            with other.begin() as connection:
                try:
                    connection.execute(text("SELECT id FROM account FOR UPDATE NOWAIT"))
                except OperationalError:
                    return False
            return True

        assert not is_free()
        eventually(is_free, interval_s=0.2)
        still.invalidate()
        engine.dispose()


def test_who_stands_still_in_the_middle_of_a_statement_is_ended_by_the_next_to_connect(
    servers: Servers,
) -> None:
    with fresh_database(servers.postgres, f"paused_{uuid.uuid4().hex}") as url:
        engine = open_engine(url, timeout_s=TIMEOUT_S, pool={"poolclass": NullPool})
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE account (id INTEGER)"))
            connection.execute(text("INSERT INTO account VALUES (1)"))
        still = engine.connect()
        still.execute(text("SELECT 1"))
        driver = still.connection.driver_connection
        assert driver is not None
        # What a process has sent of a statement when it is stopped: the server waits for the rest.
        driver.pgconn.enter_pipeline_mode()
        driver.pgconn.send_query_params(b"UPDATE account SET id = 2", None)
        driver.pgconn.send_flush_request()
        driver.pgconn.flush()

        def is_updated() -> bool:
            with engine.begin() as connection:
                try:
                    connection.execute(text("UPDATE account SET id = 3"))
                except OperationalError:
                    return False
            return True

        assert not is_updated()
        eventually(is_updated, interval_s=0.2)
        still.invalidate()
        engine.dispose()
