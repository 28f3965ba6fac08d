"""The same for asyncio: a send within the caller's transaction, over SQLAlchemy's own asyncio."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_scoped_session,
    async_sessionmaker,
    create_async_engine,
)

from feedback.clock import epoch_ms
from feedback.errors import InvalidMessage
from feedback.settings.settings import Settings
from feedback.status import State
from producer_client import AsyncClient, Client
from producer_client.outbox import NotCommitted, NoTransaction, OutboxVersionError, RowRefused
from tests.eventually import eventually
from tests.producer_client.acting import Worker
from tests.producer_client.conftest import MakeSettings
from tests.producer_client.outbox.conftest import Rows, relaying
from tests.producer_client.waits import ends_in_vain_async

LIMIT_S = 40.0
Test = Callable[[AsyncClient, AsyncEngine], Awaitable[None]]


@asynccontextmanager
async def engine_of(url: str) -> AsyncIterator[AsyncEngine]:
    made = create_async_engine(url.replace("sqlite:", "sqlite+aiosqlite:"))
    try:
        yield made
    finally:
        await made.dispose()


def run(settings: Settings, url: str, test: Test) -> None:
    """Run a test with a client and an engine of its loop."""

    async def main() -> None:
        async with AsyncClient(settings) as client, engine_of(url) as engine:
            await test(client, engine)

    asyncio.run(main())


def test_what_is_committed_is_a_row_and_a_relay_sends_it(
    settings: Settings, outbox_url: str, rows: Rows
) -> None:
    async def test(client: AsyncClient, engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            handle = await client.send(b"1", key="k", request_id="a", connection=connection)
            assert (await handle.status()).state is State.UNKNOWN
        async with AsyncSession(engine) as session, session.begin():
            await client.send(b"2", key="k", request_id="b", connection=session)
        scoped = async_scoped_session(async_sessionmaker(engine), asyncio.current_task)
        await client.send(b"3", key="k", request_id="c", connection=scoped)
        await scoped.commit()
        await scoped.remove()
        found = await asyncio.to_thread(rows)
        assert [one["request_id"] for one in found] == ["a", "b", "c"]
        assert {one["state"] for one in found} == {"WAITING"}
        with relaying(settings):
            await asyncio.to_thread(
                eventually,
                lambda: {one["state"] for one in rows()} == {"SENT"},
                timeout_s=LIMIT_S,
            )
        assert (await handle.status()).state is State.PENDING

    run(settings, outbox_url, test)


def test_what_is_rolled_back_is_nowhere_and_no_wait_sends_it(
    settings: Settings, outbox_url: str, rows: Rows
) -> None:
    async def test(client: AsyncClient, engine: AsyncEngine) -> None:
        async with engine.connect() as connection:
            handle = await client.send(b"v", connection=connection)
            await connection.rollback()
        await ends_in_vain_async(handle.wait, timeout_s=1.5)
        assert (await handle.status()).state is State.UNKNOWN

    run(settings, outbox_url, test)
    assert rows() == []


def test_no_handle_shows_the_failure_that_its_row_asks_to_run_again(
    settings: Settings, outbox_url: str, worker: Worker
) -> None:
    async def test(client: AsyncClient, engine: AsyncEngine) -> None:
        await client.send(b"v", request_id="a")
        await asyncio.to_thread(worker.tell, "a", State.FAILED, code="BUSY", resend="1")
        told_at = (await client.status("a")).updated_at or 0
        await asyncio.to_thread(eventually, lambda: epoch_ms() > told_at, timeout_s=5)
        async with engine.begin() as connection:
            handle = await client.send(b"v", request_id="a", connection=connection)
        await ends_in_vain_async(handle.wait, timeout_s=0.3)
        assert (await handle.status()).state is State.UNKNOWN
        assert (await client.status("a")).state is State.FAILED

    run(settings, outbox_url, test)


def test_what_cannot_be_joined_or_sent_is_refused(
    settings: Settings, outbox_url: str, engine: Engine, rows: Rows
) -> None:
    async def test(client: AsyncClient, own: AsyncEngine) -> None:
        apart = own.execution_options(isolation_level="AUTOCOMMIT")
        async with apart.connect() as connection:
            with pytest.raises(NoTransaction, match="autocommit"):
                await client.send(b"v", connection=connection)
        with engine.connect() as given:
            for wrong in (given, "a string", own):
                with pytest.raises(NoTransaction, match="AsyncConnection"):
                    await client.send(b"v", connection=wrong)  # type: ignore[arg-type]
        async with own.begin() as connection:
            with pytest.raises(InvalidMessage):
                await client.send(b"x" * 1_000_000, connection=connection)
            with Client(settings) as other, pytest.raises(NoTransaction, match="AsyncClient"):
                other.send(b"v", connection=connection)  # type: ignore[arg-type]

    run(settings, outbox_url, test)
    assert rows() == []


def test_a_row_that_the_database_refuses_is_no_outage(
    settings: Settings, outbox_url: str, engine: Engine, rows: Rows
) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE UNIQUE INDEX one_each ON onceward_outbox (request_id)")

    async def test(client: AsyncClient, own: AsyncEngine) -> None:
        for _ in range(2):
            async with own.begin() as connection:
                await client.send(b"v", request_id="a", connection=connection)

    with pytest.raises(RowRefused):
        run(settings, outbox_url, test)
    assert len(rows()) == 1


@pytest.mark.parametrize("kind", ["sqlite_url", "postgres_url"])
def test_a_database_without_an_outbox_says_what_to_do(
    make_settings: MakeSettings, request: pytest.FixtureRequest, kind: str
) -> None:
    url: Any = request.getfixturevalue(kind)

    async def test(client: AsyncClient, engine: AsyncEngine) -> None:
        async with engine.connect() as connection:
            with pytest.raises(OutboxVersionError, match="onceward-client outbox migrate"):
                await client.send(b"v", connection=connection)

    run(make_settings(), url, test)


def test_a_wait_in_the_transaction_of_its_task_is_refused(
    settings: Settings, outbox_url: str
) -> None:
    async def test(client: AsyncClient, engine: AsyncEngine) -> None:
        async with engine.begin() as connection:
            handle = await client.send(b"v", request_id="a", connection=connection)
            with pytest.raises(NotCommitted, match="commit first, then wait"):
                await handle.wait(5)
            await asyncio.create_task(ends_in_vain_async(handle.wait, timeout_s=0.3))
        await ends_in_vain_async(handle.wait, timeout_s=0.3)

    run(settings, outbox_url, test)
