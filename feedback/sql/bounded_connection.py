"""A psycopg connection that does not wait for ever for a silent server.

Other limits do not cover this. The server itself enforces `statement_timeout`, and the kernel ends
a connection only when packets stay unacknowledged. A proxy, or a stopped host, acknowledges every
packet and answers nothing.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from psycopg import Connection, OperationalError

from feedback.clock import monotonic_s


class BoundedConnection(Connection[Any]):
    """Its every wait for the server ends after `limit_s` seconds.

    The connection is then closed and raises OperationalError; the outcome of its statement is
    unknown.
    """

    limit_s = 0.0

    def wait(self, gen: Generator[Any, Any, Any], *arguments: Any, **named: Any) -> Any:
        """Wait for the server."""
        return super().wait(self._in_time(gen), *arguments, **named)

    def ask(self, *, within_s: float) -> None:
        """Return when the server answers.

        Raises:
            OperationalError: it does not, or not in time.
        """
        self.limit_s = min(within_s, type(self).limit_s)
        try:
            # An empty statement: one round trip, no transaction, and the server plans nothing.
            self.execute("")
        finally:
            self.limit_s = type(self).limit_s

    def _in_time(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until_s = monotonic_s() + self.limit_s
        try:
            wanted = next(gen)
            while True:
                # psycopg comes back ten times a second when the server is silent.
                ready = yield wanted
                if not ready and monotonic_s() > until_s:
                    self.close()
                    said = f"the server did not answer within {self.limit_s:g} s"
                    raise OperationalError(said)
                wanted = gen.send(ready)
        except StopIteration as ended:
            return ended.value


def bounded(limit_s: float) -> type[BoundedConnection]:
    """Return the class of connections with this limit."""
    return type("Bounded", (BoundedConnection,), {"limit_s": limit_s})
