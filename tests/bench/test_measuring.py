"""What processes cost, read from the kernel and set off against each other."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.bench.measure.cost import Reading, cost
from tests.bench.measure.machine import cpu_model
from tests.bench.measure.processes import (
    below_cpu_s,
    listening_pid,
    own_cpu_s,
    tree_cpu_s,
    tree_pss_mib,
)

# Longer than what is asserted: the kernel tells the time of user and system in whole ticks each.
BUSY = """
import time
end = time.process_time() + 0.25
while time.process_time() < end: pass
print("done", flush=True)
input()
"""


@pytest.fixture
def busy_child() -> Iterator[int]:
    """The pid of a child that has used more than 0.2 s of CPU and lives on."""
    argv = (sys.executable, "-c", BUSY)
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"done\n"
        yield process.pid
        process.kill()


def test_the_cpu_of_a_child_is_below_its_parent_alive_or_reaped() -> None:
    before = below_cpu_s(os.getpid())
    subprocess.run((sys.executable, "-c", BUSY), input=b"\n", check=True, capture_output=True)
    assert below_cpu_s(os.getpid()) - before >= 0.2


def test_the_cpu_of_a_tree_is_that_of_its_root_and_of_those_below(busy_child: int) -> None:
    assert own_cpu_s(busy_child) >= 0.2
    assert below_cpu_s(os.getpid()) >= 0.2
    assert tree_cpu_s(os.getpid()) >= own_cpu_s(os.getpid()) + 0.2


def test_the_memory_of_a_tree_has_that_of_its_children(busy_child: int) -> None:
    assert 0 < tree_pss_mib(busy_child) < tree_pss_mib(os.getpid())


def test_who_listens_on_a_port_is_found() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert listening_pid(port) == os.getpid()
    assert listening_pid(port) is None


def test_a_cost_is_by_part_and_what_nobody_of_ours_spent_is_others() -> None:
    before = Reading(at_s=10.0, parts={"client": 1.0, "worker": 5.0}, beside=3.0, busy_s=100.0)
    after = Reading(at_s=14.0, parts={"client": 2.0, "worker": 7.0}, beside=3.5, busy_s=105.5)
    found = cost(before, after, cores=2)
    assert found.cpu_s == {"client": 1.0, "worker": 2.0}
    assert found.other_cpu_percent == pytest.approx(25.0)
    assert found.per_1000(500) == {"client": 2.0, "worker": 4.0}


def test_clocks_that_disagree_leave_nothing_to_others() -> None:
    before = Reading(at_s=0.0, parts={"worker": 0.0}, beside=0.0, busy_s=0.0)
    after = Reading(at_s=1.0, parts={"worker": 1.0}, beside=0.0, busy_s=0.98)
    assert cost(before, after, cores=2).other_cpu_percent == 0.0


def test_a_processor_without_a_name_has_none() -> None:
    assert cpu_model(["processor : 0", "flags : fpu"]) is None
