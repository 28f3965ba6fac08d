"""A console keeps one heap for all its threads, where the C library would make one for each."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.settings import write_settings

ROOT = Path(__file__).parents[3]
LIMIT_S = 60.0
_VARIABLES = ("MALLOC_ARENA_MAX", "GLIBC_TUNABLES")
# In place of a look at the servers, and of serving: each starts threads, and the C library prints
# its heaps ("Arena 0:").
PROGRAM = """
import ctypes, sys, threading
from consumer.console import commands, server

def begin_threads(*_):
    have_all_allocated = threading.Barrier(8)
    def allocate():
        kept = bytes(10_000)
        have_all_allocated.wait()
    threads = [threading.Thread(target=allocate) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()

def serve(self, sockets):
    begin_threads()
    ctypes.CDLL(None).malloc_stats()

commands.require_access = begin_threads
server._ConsoleServer.run = serve
commands.cli(["--config", sys.argv[1], "--port", "0"])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have one heap")
@pytest.mark.parametrize(
    ("variables", "heaps"),
    [
        ({}, 1),
        ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=3"}, 1),
        ({"MALLOC_ARENA_MAX": "3"}, 3),
        ({"GLIBC_TUNABLES": "glibc.malloc.tcache_count=3:glibc.malloc.arena_max=3"}, 3),
    ],
    ids=str,
)
def test_all_threads_of_a_console_share_one_heap_unless_its_operator_says_how_many(
    tmp_path: Path, variables: dict[str, str], heaps: int
) -> None:
    others = {name: one for name, one in os.environ.items() if name not in _VARIABLES}
    done = subprocess.run(
        (sys.executable, "-c", PROGRAM, str(write_settings(tmp_path))),
        cwd=ROOT,
        env=others | variables,
        capture_output=True,
        text=True,
        check=True,
        timeout=LIMIT_S,
    )
    found = [line for line in done.stderr.splitlines() if line.startswith("Arena ")]
    assert found == [f"Arena {number}:" for number in range(heaps)]
