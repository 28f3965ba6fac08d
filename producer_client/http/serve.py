"""The front door as a process: its socket, its signals, slow clients, the exit code.

SIGTERM: it takes no more connections, ends waits and streams, answers the requests that it has
begun, and closes its client, which finishes its sends. A second one, or `drain_timeout_s`, cuts.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from feedback.errors import ExitCode
from feedback.logs import EventLog
from feedback.settings.settings import Settings
from feedback.systemd import notify, unit
from producer_client.http.callers import Authentication
from producer_client.http.front_door import FrontDoor, client_of
from producer_client.http.metrics import DoorMetrics
from producer_client.http.starlette_app import app

log = EventLog("onceward.http")

MOST_HEAD_BYTES = 65_536
IDLE_S = 15


class BoundedHttp(HttpToolsProtocol):
    """A connection whose request heads are bounded in time and length; uvicorn bounds neither."""

    head_s = 10.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Bound the first head."""
        super().connection_made(transport)
        self._head_bytes = 0
        self._is_in_head = True
        self._late: asyncio.TimerHandle | None = self.loop.call_later(self.head_s, self._end)

    def data_received(self, data: bytes) -> None:
        """Count the bytes of a head."""
        if self._is_in_head:
            self._head_bytes += len(data)
            self._late = self._late or self.loop.call_later(self.head_s, self._end)
        super().data_received(data)
        # What comes together with its head's end is no head, unless it never ends.
        if self._is_in_head and self._head_bytes > MOST_HEAD_BYTES:
            self._end()

    def on_headers_complete(self) -> None:
        """Bound no body: the application does."""
        self._is_in_head = False
        self._head_bytes = 0
        self._stop_clock()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Bound the next head, which may come before the answer."""
        self._is_in_head = True
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Bound the rest of a body that was answered early; uvicorn ends an idle connection."""
        self._is_in_head = self._is_in_head or self.cycle.response_complete
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the clock."""
        self._stop_clock()
        super().connection_lost(exc)

    def _stop_clock(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _end(self) -> None:
        self._late = None
        # Behind a request that is not answered yet uvicorn reads no more: the caller is not slow.
        is_answered = self.cycle is None or self.cycle.response_complete
        if is_answered or self._head_bytes > MOST_HEAD_BYTES:
            self.transport.close()
        else:
            self._late = self.loop.call_later(self.head_s, self._end)


class DoorServer(uvicorn.Server):
    """uvicorn with a drain: waits and streams end when it is asked to stop."""

    def __init__(self, config: uvicorn.Config, door: FrontDoor) -> None:
        super().__init__(config)
        self._door = door
        self.was_cut = False

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop by SIGTERM and SIGINT."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stop)
        yield

    def stop(self) -> None:
        """Drain; asked again, cut."""
        self.was_cut = self.force_exit = self.should_exit
        self.should_exit = True
        self._door.drain()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and tell the service manager and the log."""
        await super().startup(sockets)
        host, port = (sockets or [])[0].getsockname()[:2]
        notify("READY=1")
        log.info("http.started", host=host, port=port)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Drain, and note whether it was cut."""
        notify("STOPPING=1")
        await super().shutdown(sockets)
        self.was_cut = self.was_cut or self._door.was_cut
        log.info("http.stopped", was_cut=self.was_cut)


def serve(settings: Settings, authentication: Authentication, listening: socket.socket) -> ExitCode:
    """Serve until SIGTERM or SIGINT.

    Args:
        listening: a socket that listens.

    Raises:
        NotAvailable: the file of the read tokens' secret cannot be read.
        SettingsError: that secret is too short.
    """
    section = settings.http
    # It logs how each start and stop goes on; a fault of ours is logged by the application.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    metrics = DoorMetrics()
    door = FrontDoor(client_of(settings))
    BoundedHttp.head_s = section.body_timeout_s
    config = uvicorn.Config(
        app(door, authentication, metrics),
        http=BoundedHttp,
        ws="none",
        loop="uvloop",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        # The address of the peer itself: the proxies that may name a caller are known by it.
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        callback_notify=partial(_feed_watchdog, door),
        timeout_notify=max(1, int((unit().watchdog_s or 60) / 3)),
        timeout_graceful_shutdown=int(section.drain_timeout_s) or 1,
    )
    server = DoorServer(config, door)
    server.run(sockets=[listening])
    return ExitCode.CUT if server.was_cut else ExitCode.FINE


async def _feed_watchdog(door: FrontDoor) -> None:
    # Nothing but a new process has threads that do not hang.
    if not door.is_stuck:
        notify("WATCHDOG=1")
