"""A password in a file is read again for each connection to Redis."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from feedback.errors import RedisUnavailable, SecurityKind
from feedback.redis.async_store import AsyncStatusStore, connect_async
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.sections import RedisSection
from feedback.status import State
from tests.stack import Servers

FIRST, SECOND = "the-first-secret", "the-second-secret"


class RenewedUser:
    """A user of Redis and the file with its password."""

    def __init__(self, admin: Redis, url: str, file: Path) -> None:
        self._admin: Any = admin
        self.file = file
        self.name = f"user-{uuid.uuid4().hex}"
        self.settings = RedisSection(
            url=url.replace("redis://", f"redis://{self.name}@", 1), password_file=str(file)
        )

    def set_password(self, password: str) -> None:
        """Change it on the server, and end the user's connections."""
        rules = ("on", "resetpass", f">{password}", "~*", "&*", "+@all")
        self._admin.execute_command("ACL", "SETUSER", self.name, *rules)
        self._admin.execute_command("CLIENT", "KILL", "USER", self.name)

    def end(self) -> None:
        """Delete the user."""
        self._admin.execute_command("ACL", "DELUSER", self.name)


@pytest.fixture
def user(servers: Servers, tmp_path: Path) -> Iterator[RenewedUser]:
    with closing(Redis.from_url(servers.redis)) as admin:
        made = RenewedUser(admin, servers.redis, tmp_path / "password")
        made.set_password(FIRST)
        yield made
        made.end()


def test_a_renewed_password_needs_no_new_client(user: RenewedUser) -> None:
    user.file.write_text(f"{FIRST}\n")
    with closing(StatusStore(connect(user.settings), "g", user.settings)) as store:
        assert store.read("r").state is State.UNKNOWN
        user.set_password(SECOND)
        with pytest.raises(RedisUnavailable) as caught:
            store.read("r")
        assert caught.value.fault is not None
        assert caught.value.fault.kind is SecurityKind.PASSWORD
        user.file.write_text(f"{SECOND}\n")
        assert store.read("r").state is State.UNKNOWN


def test_a_renewed_password_needs_no_new_client_of_asyncio(user: RenewedUser) -> None:
    async def look() -> None:
        calls = AsyncStatusStore(connect_async(user.settings), "g", user.settings)
        try:
            await calls.read("r")
            user.set_password(SECOND)
            with pytest.raises(RedisUnavailable):
                await calls.read("r")
            user.file.write_text(f"{SECOND}\n")
            await calls.read("r")
        finally:
            await calls.aclose()

    user.file.write_text(f"{FIRST}\n")
    asyncio.run(look())


def test_a_file_that_is_gone_is_named_before_anything_is_sent(user: RenewedUser) -> None:
    with closing(StatusStore(connect(user.settings), "g", user.settings)) as store:
        with pytest.raises(RedisUnavailable, match=r"\[redis\] password_file = ") as caught:
            store.read("r")
        assert caught.value.never_reached
        assert caught.value.fault is not None
        assert caught.value.fault.kind is SecurityKind.FILE
