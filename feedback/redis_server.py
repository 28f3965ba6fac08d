"""The connection to Redis: bounded in time and number, with every fault as one error."""

from __future__ import annotations

import contextlib
import queue
import socket
from collections.abc import Iterator
from typing import Any, Protocol

import hiredis
from redis import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, OutOfMemoryError, RedisError
from redis.retry import Retry

from feedback.errors import RedisUnavailable

MAX_CONNECTIONS = 64
_NO_CONNECTION = (ConnectionRefusedError, FileNotFoundError, socket.gaierror, queue.Empty)


class Packer:
    """Packs commands in C. redis-py's own packer looks at each argument in Python first, which
    for our scripts of some thousand arguments costs as much again."""

    def pack(self, *arguments: Any) -> list[bytes]:
        """Return the bytes of one command; its first word may be two, like SCRIPT LOAD."""
        name = arguments[0]
        if isinstance(name, str) and " " in name:
            arguments = (*name.split(), *arguments[1:])
        return [hiredis.pack_command(arguments)]


class RedisSettings(Protocol):
    """What the store needs to know; `feedback.settings.RedisSection` has it."""

    @property
    def url(self) -> str: ...
    @property
    def status_ttl_s(self) -> float: ...
    @property
    def heartbeat_ttl_s(self) -> float: ...
    @property
    def timeout_s(self) -> float: ...


def connect(settings: RedisSettings) -> Redis:
    """Return a client that fails within `timeout_s` instead of waiting for an absent server.

    An idle connection that the server dropped is replaced when it is taken from the pool. A call
    that failed is not repeated here: redis-py's default would sleep and retry for seconds in the
    middle of a worker's loop, and after a second try that was refused nobody could tell any more
    that the first one had reached the server (`RedisUnavailable.never_reached`).
    """
    # A socket file has no such thing, and redis-py refuses the argument.
    keepalive = {} if settings.url.startswith("unix:") else {"socket_keepalive": True}
    pool = BlockingConnectionPool.from_url(
        settings.url,
        # More threads than that wait for each other instead of failing.
        max_connections=MAX_CONNECTIONS,
        timeout=settings.timeout_s,
        socket_timeout=settings.timeout_s,
        socket_connect_timeout=settings.timeout_s,
        **keepalive,
        retry=Retry(NoBackoff(), 0, supported_errors=()),
        command_packer=Packer(),
        health_check_interval=0,
    )
    return Redis.from_pool(pool)


@contextlib.contextmanager
def guarded(*, reached: bool = False) -> Iterator[None]:
    """Turn what redis-py raises in the block into one error.

    Args:
        reached: an earlier command of the same call went through.

    Raises:
        RedisUnavailable: with what happened in one line.
    """
    try:
        yield
    except (RedisError, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else ""
        raise RedisUnavailable(
            f"Redis: {type(error).__name__} {reason}".strip(),
            never_reached=not reached and _never_reached(error),
        ) from error


def _never_reached(error: BaseException) -> bool:
    # redis-py wraps what the socket said; refused and unresolved connections carried no command,
    # and neither did one that the pool could not give in time (Empty).
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, _NO_CONNECTION):
            return True
        cause = cause.__cause__ or cause.__context__
    return isinstance(error, (AuthenticationError, OutOfMemoryError))
