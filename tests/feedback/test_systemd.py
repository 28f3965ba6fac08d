"""What a service tells systemd, on a real socket."""

import io
import json
from pathlib import Path

import pytest

from feedback.logs import configure
from feedback.systemd import Unit
from tests.service_manager import NotifySocket


def unit_of(variables: dict[str, str], pid: int = 7) -> Unit:
    return Unit.taken_from(variables, pid)


def test_lines_arrive_together_in_one_notice() -> None:
    with NotifySocket() as manager:
        unit_of(manager.variables).notify("READY=1", "STATUS=two\nlines")
        assert manager.hear(10) == ["READY=1", "STATUS=two lines"]


def test_a_socket_may_be_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import socket

    monkeypatch.chdir(tmp_path)  # its path may be too long for a socket, its name is not
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("notify")
        unit_of({"NOTIFY_SOCKET": "notify"}).notify("STOPPING=1")
        assert manager.recv(100) == b"STOPPING=1"


def test_children_inherit_nothing_of_it() -> None:
    variables = {
        "NOTIFY_SOCKET": "@a",
        "WATCHDOG_USEC": "3000000",
        "WATCHDOG_PID": "7",
        "PATH": "/bin",
    }
    assert unit_of(variables) == Unit("@a", 3.0)
    assert variables == {"PATH": "/bin"}


@pytest.mark.parametrize(
    ("usec", "meant_for"), [("", ""), ("0", ""), ("-5", ""), ("1e6", ""), ("²", ""), ("5", "8")]
)
def test_a_watchdog_that_does_not_ask_us_is_none(usec: str, meant_for: str) -> None:
    assert unit_of({"WATCHDOG_USEC": usec, "WATCHDOG_PID": meant_for}).watchdog_s is None


def test_outside_systemd_nothing_is_told() -> None:
    assert unit_of({}) == Unit("", None)
    unit_of({}).notify("READY=1")


def test_a_manager_that_is_gone_is_logged_and_no_fault() -> None:
    stream = io.StringIO()
    configure(stream=stream)
    with NotifySocket() as manager:
        unit = unit_of(manager.variables)
    unit.notify("WATCHDOG=1")
    assert json.loads(stream.getvalue())["event"] == "systemd.not_told"
