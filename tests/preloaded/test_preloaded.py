"""A fork is what a process of its own would be: its files, its end, its session, its signals."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from feedback.clock import monotonic_s
from tests import preloaded
from tests.eventually import eventually
from tests.preloaded.forks import PRELOADED, ROOT, Forked

WORKER = (sys.executable, "-m", "consumer")
LIMIT_S = 30.0


def test_what_a_command_prints_and_its_code_are_those_of_its_own_process() -> None:
    for arguments in (("--help",), ("run", "--config", "nowhere.toml")):
        argv = (*WORKER, *arguments)
        environ = PRELOADED | {"PATH": os.environ["PATH"], "ONCEWARD_WORKER__PROCESSES": "0"}
        alone = subprocess.run(argv, env=environ, capture_output=True, text=True, timeout=LIMIT_S)
        forked = preloaded.run(argv, environ=environ, timeout_s=LIMIT_S)
        assert (forked.returncode, forked.stdout) == (alone.returncode, alone.stdout)
        assert len(forked.stderr.splitlines()) == len(alone.stderr.splitlines())


def test_what_comes_after_the_last_line_comes_as_in_its_own_process() -> None:
    argv = (sys.executable, "-m", "tests.preloaded.last_words")
    alone = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, timeout=LIMIT_S)
    forked = preloaded.run(argv, environ=PRELOADED, timeout_s=LIMIT_S)
    for one in (alone, forked):
        said = (one.returncode, one.stdout, one.stderr)
        assert said == (3, "thread, exit handler", "freed")


def test_it_has_what_a_worker_and_the_other_commands_run_on() -> None:
    argv = (sys.executable, "-m", "tests.preloaded.modules")
    modules = set(preloaded.run(argv, environ=PRELOADED, timeout_s=LIMIT_S).stdout.split())
    assert modules >= {
        "consumer.ops.service",
        "consumer.dlq",
        "producer_client.commands.service",
        "psycopg",
    }


def waiting(tmp_path: Path) -> Forked:
    """Return a process that reads a pipe into which nobody writes."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    return Forked((*WORKER, "check", "--config", str(pipe)), environ={})


def test_it_leads_a_session_and_ends_by_a_signal(tmp_path: Path) -> None:
    one = waiting(tmp_path)
    assert one.poll() is None
    assert os.getsid(one.pid) == os.getpgid(one.pid) == one.pid
    with pytest.raises(subprocess.TimeoutExpired):
        one.wait(0.01)
    one.send_signal(signal.SIGKILL)
    assert one.wait(LIMIT_S) == one.poll() == -signal.SIGKILL
    one.kill()
    with pytest.raises(ProcessLookupError):
        os.kill(one.pid, 0)


_KILLED = """
import os, signal, sys, time
from tests.preloaded.forks import Forked
one = Forked((sys.executable, "-m", "consumer", "check", "--config", sys.argv[1]), environ={})
if os.fork() == 0:
    time.sleep(float(sys.argv[2]))  # it holds the socket
    os._exit(0)
print(one.pid, one._preloaded._process.pid, flush=True)
os.kill(int(sys.argv[3]) * os.getpid(), signal.SIGKILL)
"""
_ALONE, _WITH_ITS_GROUP = 1, -1


@pytest.mark.parametrize(("held_s", "whom"), [(0, _ALONE), (LIMIT_S, _ALONE), (0, _WITH_ITS_GROUP)])
def test_of_one_that_is_killed_nothing_is_left(tmp_path: Path, held_s: float, whom: int) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    killed = subprocess.Popen(
        (sys.executable, "-c", _KILLED, str(pipe), str(held_s), str(whom)),
        cwd=ROOT,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert killed.stdout is not None
    left = [int(one) for one in killed.stdout.readline().split()]
    assert len(left) == 2
    assert killed.wait(LIMIT_S) == -signal.SIGKILL
    killed.stdout.close()
    began_s = monotonic_s()
    eventually(lambda: not any(map(_runs, left)), timeout_s=LIMIT_S)
    assert monotonic_s() - began_s < held_s or held_s == 0
    with suppress(ProcessLookupError):
        os.killpg(killed.pid, signal.SIGKILL)


def _runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
