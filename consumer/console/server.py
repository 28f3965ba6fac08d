"""The console as a process: its socket, its signals, its end."""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import click
import uvicorn

from consumer.console.app import app
from feedback.errors import ExitCode
from feedback.logs import EventLog
from feedback.settings.settings import Settings

log = EventLog("onceward.console")

DRAIN_S = 5
IDLE_S = 15


class _ConsoleServer(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ending: asyncio.Event) -> None:
        super().__init__(config)
        self._ending = ending

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own ends the process by the signal once it has drained.
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self._end, number)
        yield

    def _end(self, number: int) -> None:
        self._ending.set()
        self.handle_exit(number, None)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        host, port = (sockets or [])[0].getsockname()[:2]
        url = f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
        click.echo(f"the console is at {url}", err=True)
        log.info("console.started", host=host, port=port)


def serve(settings: Settings, listening: socket.socket, *, file: str | None = None) -> ExitCode:
    """Serve until SIGTERM or SIGINT.

    Args:
        listening: a socket that listens.
        file: of the settings; see `app`.
    """
    # It logs how each start and stop goes on; a fault of ours is logged by the application.
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    ending = asyncio.Event()
    config = uvicorn.Config(
        app(settings, ending, file=file, port=listening.getsockname()[1]),
        ws="none",
        # A few browsers: uvloop would only take memory.
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=DRAIN_S,
    )
    _ConsoleServer(config, ending).run(sockets=[listening])
    log.info("console.stopped")
    return ExitCode.FINE
