"""A write of statuses that is on its way to Redis while its caller does something else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from redis import Redis
from redis.exceptions import NoScriptError

from feedback.clock import monotonic_s
from feedback.redis.server import guarded
from feedback.statuses import Refused

Answers = list[Refused | None]


class _Forgotten(Exception):
    """A restarted Redis does not know the script."""


class SentScript:
    """One call of a script, on a connection of its own until its reply is read.

    Args:
        redis: its pool gives the connection.
    """

    def __init__(self, redis: Redis) -> None:
        self._pool = redis.connection_pool
        self._connection: Any = None

    def evalsha(self, *arguments: Any) -> None:
        """Send the call, as `Redis.evalsha` does."""
        self._connection = self._pool.get_connection()
        try:
            self._connection.send_command("EVALSHA", *arguments)
        except BaseException:
            self.abandon()
            raise

    def reply(self) -> Any:
        """Wait for the reply and return it, or raise the error that it is."""
        try:
            return self._connection.read_response()
        except NoScriptError as error:
            raise _Forgotten from error
        finally:
            self._pool.release(self._connection)

    def abandon(self) -> None:
        """Read no reply: the next command on the connection would get it, so that is closed."""
        self._connection.disconnect()
        self._pool.release(self._connection)


class SentWrite:
    """A batch of statuses that was sent, and its answers, which are read later.

    Redis gets the batch although this process dies right after the sending. Either `answers` or
    `abandon` is called, once: until then the batch has a connection of its own.

    Args:
        script: was sent.
        answers_of: the meaning of its reply.
        write_again: writes the batch to a Redis that has forgotten the script, since it restarted.
        waited_s: how long the sending took.
        took: hears how long sending and answers took together, in seconds.

    Attributes:
        waited_s: how long its caller has waited for Redis, for the sending and for the answers.
    """

    def __init__(
        self,
        script: SentScript,
        *,
        answers_of: Callable[[Sequence[bytes | int]], Answers],
        write_again: Callable[[], Answers],
        waited_s: float,
        took: Callable[[float], None],
    ) -> None:
        self._script, self._answers_of, self._write_again = script, answers_of, write_again
        self.waited_s, self._took = waited_s, took

    def answers(self) -> Answers:
        """Wait for the answers, and return them as `StatusStore.write` does.

        Raises:
            RedisRefused: one of the writes is at fault.
            RedisUnavailable: the write may or may not have been done; repeating is harmless.
        """
        began_s = monotonic_s()
        try:
            with guarded():
                replies = self._script.reply()
        except _Forgotten:
            replies = None
        finally:
            self.waited_s += monotonic_s() - began_s
            self._took(self.waited_s)
        return self._write_again() if replies is None else self._answers_of(replies)

    def abandon(self) -> None:
        """Leave it as it is: the write may or may not be done."""
        self._script.abandon()
