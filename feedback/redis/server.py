"""The connection to Redis: bounded in time and number, with every fault as one error."""

from __future__ import annotations

import contextlib
import queue
import re
import socket
import sys
from collections.abc import Iterator
from types import MappingProxyType
from typing import Any, Protocol

import hiredis
from redis import BlockingConnectionPool, Redis
from redis.backoff import NoBackoff
from redis.client import Pipeline
from redis.exceptions import AuthenticationError, DataError, RedisError, ResponseError
from redis.retry import Retry

from feedback.errors import RedisRefused, RedisUnavailable
from feedback.redis.faults import fault_of, lacks_right_in_script
from feedback.redis.logins import log_in_by_file
from feedback.redis.sockets import connection_class
from feedback.settings.secret_files import SecretFile
from feedback.status import State

MAX_CONNECTIONS = 64
_NO_CONNECTION = (ConnectionRefusedError, FileNotFoundError, socket.gaierror, queue.Empty)
_NUMBERS = (int, float)
_NO_CLUSTER = "this is a Redis Cluster, which we do not support; name one primary in [redis] url"
# A server that answers one of these refuses every command now: it counts as away, and it did
# nothing. Each has the operator's next step.
REFUSES_ALL = MappingProxyType(
    {
        "OOM": "raise its maxmemory, or keep statuses for less long (status_ttl_s)",
        "LOADING": "it is reading its data; wait",
        "READONLY": "it is a replica; name the primary in [redis] url",
        "MASTERDOWN": "it has lost its primary; start that, or name another in [redis] url",
        "NOREPLICAS": "too few replicas follow it; start them, or lower min-replicas-to-write",
        "BUSY": "a script that is not ours keeps it busy; end that with SCRIPT KILL",
        "MISCONF": "it cannot write to its disk; see its log",
        "CLUSTERDOWN": "its cluster lacks a part; see CLUSTER INFO",
        "TRYAGAIN": "its cluster is moving data; wait",
        "NOSCRIPT": "it forgot our script twice; wait",
        # The sentences of these three are those of a fault of security.
        "NOAUTH": "",
        "WRONGPASS": "",
        "NOPERM": "",
        "MOVED": _NO_CLUSTER,
        "ASK": _NO_CLUSTER,
        "CROSSSLOT": _NO_CLUSTER,
    }
)
# At the beginning. Before Redis 7, with a dash in front, somewhere in a script's report.
_CODE = re.compile(r"(?:^|\s-)([A-Z]{3,})\b")


class Packer:
    """Packs commands in C. redis-py's own packer looks at each argument in Python first, which
    for our scripts of some thousand arguments costs as much again."""

    def pack(self, *arguments: Any) -> list[bytes]:
        """Return the bytes of one command; its first word may be two, like SCRIPT LOAD."""
        name = arguments[0]
        if isinstance(name, str) and " " in name:
            arguments = (*name.split(), *arguments[1:])
        # hiredis 3.5 looks for signals as it makes a text of a number. Where a handler then raises,
        # it ends the process.
        texts: Any = tuple([str(one) if type(one) in _NUMBERS else one for one in arguments])
        try:
            return [hiredis.pack_command(texts)]
        except (TypeError, UnicodeEncodeError) as error:
            # redis-py's text may quote a payload.
            raise DataError(f"{type(error).__name__} in an argument of {name}") from None


class RedisSettings(Protocol):
    """The settings of the store; `feedback.settings.settings.RedisSection` has them."""

    @property
    def url(self) -> str: ...
    def ttl_s(self, state: State) -> float: ...
    @property
    def heartbeat_ttl_s(self) -> float: ...
    @property
    def timeout_s(self) -> float: ...
    @property
    def secret(self) -> SecretFile | None: ...


class _LastInFirstOut:
    """The connections of a pool, changed by single calls in C: `LifoQueue` takes a lock for several
    steps, and a signal handler that raises between them leaves it held for good."""

    def __init__(self, maxsize: int) -> None:
        self.queue: list[Any] = []
        self._maxsize = maxsize
        self._count: queue.SimpleQueue[None] = queue.SimpleQueue()

    def put_nowait(self, one: Any) -> None:
        """Put one back.

        Raises:
            Full: all are there.
        """
        if len(self.queue) >= self._maxsize:
            raise queue.Full
        self.queue.append(one)
        self._count.put(None)

    def get(self, block: bool, timeout: float) -> Any:
        """Take one.

        Raises:
            Empty: none is there in time.
        """
        self._count.get(block, timeout)
        return self.queue.pop()


class _Pool(BlockingConnectionPool):
    """A pool that keeps no connection whose call was interrupted: the answer that nobody has read
    would be taken for that to the next call. redis-py looks for one only where no notices of a
    server's maintenance may come, and sees none that is still on its way."""

    def get_connection(self, *given: Any, **named: Any) -> Any:
        """Return a connection for one call."""
        found = super().get_connection(*given, **named)  # type: ignore[no-untyped-call]
        # Its caller may be handling an error, which says nothing about the call.
        found.onceward_handled = sys.exception()
        return found

    def release(self, connection: Any) -> None:
        """Take a connection back after a call."""
        error = sys.exception()
        is_lent = hasattr(connection, "onceward_handled")
        before = vars(connection).pop("onceward_handled", None)
        if is_lent and error is not None and error is not before:
            # Its command may have gone out, whatever a signal handler has raised.
            error.onceward_lent = True  # type: ignore[attr-defined]
        # An OSError of the socket is a RedisError by now, and its connection ended: any other one
        # is of a handler, like the TimeoutError of a limit of time.
        if error is not before and not isinstance(error, RedisError):
            connection.disconnect()
        super().release(connection)  # type: ignore[no-untyped-call]


class _Pipeline(Pipeline):
    """A pipeline that gives its connection back once. Where a signal handler raises just after
    that, redis-py's gives it back again as it is dropped: two calls have it then, and one takes
    the answer to the other. Ours watch no key."""

    def reset(self) -> None:  # type: ignore[override]  # as redis-py's own
        """Give the connection back, and forget the commands."""
        # No call stands between these two, so no handler raises there.
        connection, self.connection = self.connection, None
        if connection is not None:
            self.connection_pool.release(connection)
        super().reset()


class _RedisClient(Redis):
    def pipeline(self, transaction: bool = True, shard_hint: Any = None) -> _Pipeline:
        return _Pipeline(self.connection_pool, self.response_callbacks, transaction, shard_hint)


def connect(settings: RedisSettings) -> Redis:
    """Return a client that fails within `timeout_s` instead of waiting for a server that is away.

    An idle connection that the server dropped is replaced when it is taken from the pool. A call
    that failed is not repeated here: redis-py's default would sleep and retry for seconds in the
    middle of a worker's loop. And after a refused second try nobody could tell whether the first
    had reached the server (`RedisUnavailable.never_reached`).
    """
    # A socket file has no keepalive, and redis-py refuses the argument.
    keepalive = {} if settings.url.startswith("unix:") else {"socket_keepalive": True}
    pool = _Pool.from_url(
        settings.url,
        queue_class=_LastInFirstOut,
        # More threads than that wait for each other instead of failing.
        max_connections=MAX_CONNECTIONS,
        timeout=settings.timeout_s,
        socket_timeout=settings.timeout_s,
        socket_connect_timeout=settings.timeout_s,
        **keepalive,
        **connection_class(settings.url),
        retry=Retry(NoBackoff(), 0, supported_errors=()),
        command_packer=Packer(),
        health_check_interval=0,
    )
    log_in_by_file(pool, settings.secret)
    return _RedisClient.from_pool(pool)


def execute(pipe: Any) -> list[Any]:
    """Return a pipeline's replies.

    Raises:
        RedisError: the first error, in the server's words: redis-py's own text would quote the
            command, and with it ids and keys.
    """
    return replies_of(pipe.execute(raise_on_error=False))


def replies_of(replies: list[Any]) -> list[Any]:
    """Return the results of a pipeline that does not raise by itself.

    Raises:
        RedisError: the first error among the replies, in the server's words.
    """
    for reply in replies:
        if isinstance(reply, Exception):
            raise reply
    return replies


@contextlib.contextmanager
def guarded(*, reached: bool = False) -> Iterator[None]:
    """Turn an error of redis-py in the block into one of ours.

    Args:
        reached: an earlier command of the same call went through.

    Raises:
        RedisRefused: the arguments of the call are at fault.
        RedisUnavailable: with the cause in one line.
    """
    # Our caller may be handling an error of its own, which Python attaches to any later one.
    handled = sys.exception()
    try:
        yield
    except (RedisError, OSError) as error:
        code = refusal_code(error)
        why = fault_of(error, code, handled)
        kind = RedisUnavailable
        if why is None and code not in REFUSES_ALL:
            kind = RedisRefused if isinstance(error, ResponseError | DataError) else kind
        absent = code in REFUSES_ALL or _never_reached(error, handled)
        # A script that lacks a right ends in the middle.
        absent = absent and not reached and not lacks_right_in_script(error)
        said = _one_line(error, code) if why is None else f"Redis: {why.said}"
        raise kind(said, never_reached=absent).because(why) from error


def refusal_code(error: BaseException) -> str:
    """Return the code of a server's refusal; empty where it has none.

    >>> refusal_code(ResponseError("MISCONF Redis is configured to save"))
    'MISCONF'
    >>> refusal_code(ResponseError("ERR Error running script: @user_script:7: -OOM command"))
    'OOM'
    """
    known = getattr(error, "status_code", None)
    if known and known != "ERR":
        return str(known)
    if not isinstance(error, ResponseError):
        return ""
    codes: list[str] = _CODE.findall(str(error))
    return codes[-1] if codes else ""


def _one_line(error: BaseException, code: str) -> str:
    text = str(error).splitlines()[0] if str(error) else ""
    text = text.partition(" script: ")[0]  # Redis 7 names the script's hash and line
    advice = REFUSES_ALL.get(code)
    said = f"Redis: {type(error).__name__} {text}".strip()
    return said if advice is None else f"{said.rstrip('.')}: {advice}"


def _never_reached(error: BaseException, handled: BaseException | None) -> bool:
    # redis-py wraps the error of the socket. Refused and unresolved connections carried no command,
    # and neither did one that the pool could not give in time (Empty). An error that was being
    # handled when the call began says nothing about the call.
    if not isinstance(error, RedisError):
        # redis-py wraps each error of the socket, so this one is of a signal handler: it may have
        # struck behind the answer as well.
        return hasattr(error, "onceward_unsent")
    cause: BaseException | None = error
    while cause is not None and cause is not handled:
        if hasattr(cause, "onceward_unsent"):
            return True
        if hasattr(cause, "onceward_lent"):
            break
        if isinstance(cause, _NO_CONNECTION):
            return True
        cause = cause.__cause__ or cause.__context__
    return isinstance(error, AuthenticationError | DataError)
