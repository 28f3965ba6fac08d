"""Kafka and Redis for benches: those of the settings, else started for as long as the tests run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from feedback.console.commands import file_of
from feedback.settings.settings import Settings, load
from onceward.dev.backing import provide
from onceward.dev.session_plan import KAFKA, REDIS
from onceward.servers.keeper import Keeper


class RealServers:
    """Real servers, and the keeper of the workers that use them.

    Args:
        starts: whether to start what does not answer; else the settings are believed.
        say: is told where they are.

    Attributes:
        settings: those that the user has for this folder.
        file: of the settings, if any.
        keeper: ends all workers with this process.

    Raises:
        NotAvailable: one is away and cannot be started; names the next step.
        SettingsError: the settings are wrong.
    """

    def __init__(self, *, starts: bool, say: Callable[[str], None]) -> None:
        self._ends = ExitStack()
        named = file_of(None)
        self.file = None if named is None else Path(named).absolute()
        self.settings: Settings = load(self.file)
        try:
            self.keeper = self._ends.enter_context(Keeper())
            if starts:
                data = self.keeper.folder / "servers"
                provide(self.settings, data, ends=self._ends, say=say, shares=True)
                # Processes of a distributed run take these.
                os.environ[KAFKA] = self.settings.kafka.bootstrap_servers
                os.environ[REDIS] = self.settings.redis.url
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the workers, and the servers that were started."""
        self._ends.close()
