"""The counterparty, as a process: how long it takes, and what it says of it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.bench.modes.arm import Delays
from tests.bench.modes.calls import Counterparty, counterparty

DELAYS = Delays(cycle=10, slow_s=0.3, usual_s=0.05)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Counterparty]:
    """A counterparty that runs."""
    with counterparty(DELAYS, log=tmp_path / "counterparty.log") as started:
        yield started
    assert (tmp_path / "counterparty.log").read_text() == ""


def body(counter: int) -> bytes:
    return json.dumps({"operationId": f"o-{counter}", "additionalData": str(counter % 10)}).encode()


def call(address: str, *counters: int) -> list[object]:
    """Make calls, one after the other, on one connection."""
    connection = HTTPConnection(address, timeout=5)
    answers = []
    for counter in counters:
        connection.request("POST", "/authData", body(counter))
        answers.append(json.load(connection.getresponse()))
    connection.close()
    return answers


def test_each_call_takes_its_time_beside_the_others(asked: Counterparty) -> None:
    with ExitStack() as closing:
        connections = []
        for counter in range(10):
            connection = HTTPConnection(asked.address, timeout=30)
            closing.callback(connection.close)
            connection.request("POST", "/authData", body(counter))
            connections.append(connection)
        answers = [json.load(one.getresponse()) for one in connections]
    assert answers == [{"operationId": f"o-{n}", "authorised": True} for n in range(10)]
    calls = {one.operation_id: one for one in asked.calls()}
    assert {name: one.takes_s for name, one in calls.items()} == {
        f"o-{n}": 0.3 if n == 0 else 0.05 for n in range(10)
    }
    assert all(one.late_s >= 0 for one in calls.values())
    # One after the other, each would have come when the one before was answered.
    slow = calls.pop("o-0")
    assert any(
        one.came_s < slow.answered_s and slow.came_s < one.answered_s for one in calls.values()
    )


def test_a_connection_is_good_for_many_calls(asked: Counterparty) -> None:
    call(asked.address, 1, 2, 3)
    assert [one.operation_id for one in asked.calls()] == ["o-1", "o-2", "o-3"]
    assert asked.answered() == 3


def test_a_request_in_pieces_is_one_request(asked: Counterparty) -> None:
    connection = HTTPConnection(asked.address, timeout=5)
    connection.putrequest("POST", "/authData")
    connection.putheader("Content-Length", str(len(body(1))))
    connection.endheaders()
    for byte in body(1):
        connection.send(bytes([byte]))
    assert connection.getresponse().status == 200
    connection.close()


def test_who_hangs_up_before_the_answer_has_called_all_the_same(asked: Counterparty) -> None:
    connection = HTTPConnection(asked.address, timeout=5)
    connection.request("POST", "/authData", body(1))
    connection.close()
    call(asked.address, 2, 3)
    assert {one.operation_id for one in asked.calls()} == {"o-1", "o-2", "o-3"}


def test_another_address_is_not_found(asked: Counterparty) -> None:
    connection = HTTPConnection(asked.address, timeout=5)
    connection.request("GET", "/")
    assert connection.getresponse().status == 404
    connection.close()
