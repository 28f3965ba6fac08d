"""What bounds a transaction whose owner stands still."""

import uuid

import pytest
from sqlalchemy import create_engine, text
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

from feedback.sql.engine import open_engine
from tests.eventually import eventually
from tests.stack import Servers
from tests.stack.postgres import fresh_database

TIMEOUT_S = 1.0
# What the kernel buffers of an answer is some megabytes; this is 40.
LARGE = b"SELECT repeat('x', 4000) FROM generate_series(1, 10000)"


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
