"""`onceward-worker`: run to its end, or as a real worker that is read, asked to end, killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests import preloaded
from tests.kit.program import StartedProgram
from tests.kit.settings import environment

COMMAND = (sys.executable, "-m", "consumer")
COMMAND_LIMIT_S = 60.0


def command(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run `onceward-worker` to its end."""
    environ = environment(**settings)
    return preloaded.run((*COMMAND, *arguments), environ=environ, timeout_s=COMMAND_LIMIT_S)


class RunningWorker(StartedProgram):
    """`onceward-worker run`, in a process group of its own, its log in a file.

    Args:
        config: its settings.
        log: the file for what it writes to stderr.
        settings: environment variables beside this process's own.
        argv: another command than that, without its settings.
    """

    def __init__(
        self,
        config: Path,
        *,
        log: Path,
        settings: Mapping[str, str],
        argv: Sequence[str] = (*COMMAND, "run"),
    ) -> None:
        words = (*argv, "--config", str(config))
        super().__init__(words, log=log, environ=environment(**settings))

    @property
    def worker_id(self) -> str:
        """The id under which it holds claims; known once it has started."""
        return str(self.told("worker.started")["worker_id"])
