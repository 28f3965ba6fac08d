"""The keeper: a small process that owns the servers of one stack and their folder.

Run by path as a script, with the parent's pid as its argument; imports the standard library only.

Theory of operation. It makes the folder, says where it is, and then answers one JSON line with
another until its parent ends it, closes the pipe, or dies. Whichever comes first, it stops every
server, removes the folder and leaves. Before you edit this:

- The pipe alone does not tell of the parent's death: a child the parent forked keeps its end open.
  So the parent is watched by a pidfd as well.
- PR_SET_PDEATHSIG names the *thread* that forked. Servers are therefore started here, from the
  only thread of a process, and not from the parent's start-up threads, whose end would kill them.
- PostgreSQL puts each backend into a session of its own, out of reach of a signal to a group. The
  keeper is a subreaper instead: the orphans of a dead server become its children.
"""

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
STOP_LIMIT_S = 5.0
REAP_LIMIT_S = 5.0

_libc = ctypes.CDLL(None, use_errno=True)


def die_with(parent_pid: int, death_signal: int) -> None:
    """Have the kernel send this process `death_signal` when its parent dies; for `preexec_fn`."""
    _libc.prctl(PR_SET_PDEATHSIG, death_signal)
    # The parent may have died between the fork and the line above; then nobody would tell us.
    if os.getppid() != parent_pid:
        os.kill(os.getpid(), signal.SIGKILL)


def adopt_orphans() -> None:
    """Become the parent of what this process' children leave behind when they end."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1)


def children() -> list[int]:
    """Return the processes that the main thread has started or adopted."""
    return [int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()]


class Processes:
    """The processes of one stack, by pid."""

    def __init__(self) -> None:
        self._started: dict[int, tuple[subprocess.Popen[bytes], int]] = {}

    def start(
        self,
        *,
        argv: list[str],
        folder: str,
        log: str,
        user: str | None,
        stop_signal: int,
        death_signal: int,
    ) -> int:
        """Start a process as `user` in `folder`, both outputs appended to `log`; return its pid."""
        keeper_pid = os.getpid()
        with Path(log).open("ab") as output:
            process = subprocess.Popen(
                argv,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                user=user,
                extra_groups=None if user is None else [],
                # After setuid, which clears the death signal; a keeper has no other threads.
                preexec_fn=lambda: die_with(keeper_pid, death_signal),
            )
        self._started[process.pid] = (process, stop_signal)
        return process.pid

    def exit_code(self, pid: int) -> int | None:
        """Return the exit code of a started process, None while it runs."""
        return self._started[pid][0].poll()

    def stop(self, pids: list[int], limit_s: float) -> None:
        """Ask each to stop, all at once; after `limit_s` seconds together, kill the rest."""
        chosen = [self._started[pid] for pid in pids]
        for process, stop_signal in chosen:
            process.send_signal(stop_signal)
        deadline_s = time.monotonic() + limit_s
        for process, _ in chosen:
            try:
                process.wait(max(0.0, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def stop_all(self) -> None:
        """Stop all that were started, then the processes that they left behind."""
        self.stop(list(self._started), STOP_LIMIT_S)
        _kill_orphans(REAP_LIMIT_S)


def _kill_orphans(limit_s: float) -> None:
    """Kill and reap the children that dead servers left to this subreaper."""
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def _requests(parent_pid: int) -> Iterator[dict[str, Any]]:
    """Yield the parent's requests; end when it says so, closes the pipe, or is gone."""
    parent = os.pidfd_open(parent_pid)
    if os.getppid() != parent_pid:
        return
    received = b""
    while True:
        ready, _, _ = select.select([0, parent], [], [])
        if parent in ready:
            return
        chunk = os.read(0, 65_536)
        if not chunk:
            return
        *lines, received = (received + chunk).split(b"\n")
        for line in lines:
            request = json.loads(line)
            if request["do"] == "end":
                return
            yield request


def _answer(servers: Processes, request: dict[str, Any]) -> dict[str, Any]:
    match request.pop("do"):
        case "start":
            try:
                return {"pid": servers.start(**request)}
            except OSError as error:
                return {"error": f"{request['argv'][0]}: {error}"}
        case "poll":
            return {"code": servers.exit_code(request["pid"])}
        case "stop":
            servers.stop([request["pid"]], request["limit_s"])
            return {"code": servers.exit_code(request["pid"])}
        case unknown:
            return {"error": f"the keeper does not know {unknown!r}"}


def _tell(answer: dict[str, Any]) -> None:
    os.write(1, json.dumps(answer).encode() + b"\n")


def _leave(*_: object) -> None:
    raise SystemExit(0)


def main(parent_pid: int) -> None:
    """Keep the servers of `parent_pid` until it ends them or is gone."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for asked_to_end in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(asked_to_end, _leave)
    adopt_orphans()
    servers = Processes()
    folder = Path(tempfile.mkdtemp(prefix="onceward-stack-"))
    try:
        # PostgreSQL runs as another user and must be able to pass through.
        folder.chmod(0o711)
        # From here on nothing of the parent's is held open: a reader of its output sees it end.
        log = os.open(folder / "keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 2)
        _tell({"folder": str(folder)})
        for request in _requests(parent_pid):
            _tell(_answer(servers, request))
    except (BrokenPipeError, ProcessLookupError):
        pass  # The parent died while it was being answered, or before it could be watched.
    finally:
        for asked_to_end in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(asked_to_end, signal.SIG_IGN)
        servers.stop_all()
        shutil.rmtree(folder)


if __name__ == "__main__":
    main(int(sys.argv[1]))
