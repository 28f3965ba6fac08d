"""The parent's side of the keeper: one process per stack, which outlives us."""

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from onceward.servers import keeper_process
from onceward.servers.errors import StackError, tail
from onceward.servers.polling import eventually

# Longer than the keeper's own limits: it kills the programs that do not stop, and then it is done.
CLOSE_LIMIT_S = keeper_process.STOP_LIMIT_S + keeper_process.REAP_LIMIT_S + 5.0


@dataclass(frozen=True, slots=True)
class ServerCommand:
    """A program the keeper runs: where, as whom, and which signal ends it.

    `stop_signal` ends it at once and cleanly enough when its data is thrown away with it;
    `orderly_signal` is how an operator stops it.
    """

    argv: tuple[str, ...]
    folder: Path
    log: Path
    user: str | None = None
    stop_signal: int = signal.SIGTERM
    orderly_signal: int = signal.SIGTERM
    death_signal: int = signal.SIGKILL


class Keeper:
    """Runs programs that end, with their `folder`, no later than this process does.

    That holds for a normal end, an exception, Ctrl-C, SIGTERM and SIGKILL of this process. If the
    keeper is killed the programs still end and `close` removes the folder; only when both are
    killed at once does the folder stay.
    """

    def __init__(self) -> None:
        # Isolated (-I) so that the script's neighbours `redis.py` and `kafka.py` shadow nothing;
        # in a session of its own so that Ctrl-C reaches us first and the servers are stopped once.
        self._process = subprocess.Popen(
            [sys.executable, "-I", keeper_process.__file__, str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            cwd="/",
        )
        self._one_at_a_time = threading.Lock()
        try:
            self.folder = Path(self._answer()["folder"])
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The keeper's own process id."""
        return self._process.pid

    def start(self, command: ServerCommand) -> int:
        """Start `command` and return its pid."""
        request = asdict(command) | {"folder": str(command.folder), "log": str(command.log)}
        del request["orderly_signal"]  # a caller that stops it in order sends that signal
        return int(self._ask({"do": "start", **request})["pid"])

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a started program, None while it runs."""
        code = self._ask({"do": "poll", "pid": pid})["code"]
        return None if code is None else int(code)

    def stop(self, pid: int, *, limit_s: float = keeper_process.STOP_LIMIT_S) -> None:
        """Stop one program with its stop signal, killed after `limit_s` seconds."""
        self._ask({"do": "stop", "pid": pid, "limit_s": limit_s})

    def run(self, command: ServerCommand, *, timeout_s: float) -> None:
        """Run `command` to its end.

        Raises:
            StackError: it failed or took longer than `timeout_s`; holds the end of its log.
        """
        pid = self.start(command)
        name = Path(command.argv[0]).name
        try:
            eventually(lambda: self.exit_code(pid) is not None, timeout_s=timeout_s, what=name)
        except TimeoutError as error:
            self.stop(pid, limit_s=0)
            raise StackError(f"{name}: {error}", tail(command.log)) from error
        if code := self.exit_code(pid):
            raise StackError(f"{name} failed with code {code}", tail(command.log))

    def close(self) -> None:
        """Stop every program, remove the folder, and return when both are done."""
        self._end()
        if self.folder.exists():  # The keeper itself was killed.
            shutil.rmtree(self.folder)

    def _end(self) -> None:
        with self._one_at_a_time:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            # Said in words: end of file would wait for every child that was forked off us.
            if not self._process.stdin.closed:
                try:
                    self._process.stdin.write(b'{"do": "end"}\n')
                    self._process.stdin.close()
                except BrokenPipeError:
                    pass  # It is gone already, and its programs with it.
                self._process.stdout.close()
        try:
            self._process.wait(CLOSE_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        with self._one_at_a_time:
            assert self._process.stdin is not None
            try:
                self._process.stdin.write(json.dumps(request).encode() + b"\n")
                self._process.stdin.flush()
            except (BrokenPipeError, ValueError) as error:
                raise StackError("the keeper of the local stack is gone") from error
            return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise StackError("the keeper of the local stack is gone")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise StackError(answer["error"])
        return answer
