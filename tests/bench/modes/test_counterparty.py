"""The counterparty, as a process: how long it takes, and what it says of it."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from http.client import HTTPConnection
from pathlib import Path

import pytest

from tests.bench.modes.arm import Delays
from tests.bench.modes.calls import Counterparty, counterparty
from tests.rounds import ROUNDS

DELAYS = Delays(cycle=10, slow_s=0.3, usual_s=0.05)
# Beyond what a machine stands still.
LIMIT_S = 30.0


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
    connection = HTTPConnection(address, timeout=LIMIT_S)
    answers = []
    for counter in counters:
        connection.request("POST", "/authData", body(counter))
        answers.append(json.load(connection.getresponse()))
    connection.close()
    return answers


def test_each_call_takes_its_time_beside_the_others(asked: Counterparty) -> None:
    # Who stands still between two calls asks one after the other: each round is of other calls.
    assert any(are_beside_each_other(asked, first) for first in range(0, 10 * ROUNDS, 10))


def are_beside_each_other(asked: Counterparty, first: int) -> bool:
    """Make ten calls, the first of which is slow; return whether another came meanwhile."""
    numbers = range(first, first + 10)
    with ExitStack() as closing:
        connections = [HTTPConnection(asked.address, timeout=LIMIT_S) for _ in numbers]
        for one in connections:
            closing.callback(one.close)
            one.connect()
        for one, counter in zip(connections, numbers, strict=True):
            one.request("POST", "/authData", body(counter))
        answers = [json.load(one.getresponse()) for one in connections]
    assert answers == [{"operationId": f"o-{n}", "authorised": True} for n in numbers]
    names = {f"o-{n}" for n in numbers}
    calls = {one.operation_id: one for one in asked.calls() if one.operation_id in names}
    assert {name: one.takes_s for name, one in calls.items()} == {
        f"o-{n}": 0.3 if n == first else 0.05 for n in numbers
    }
    assert all(one.late_s >= 0 for one in calls.values())
    # One after the other, each would have come when the one before was answered.
    slow = calls.pop(f"o-{first}")
    return any(
        one.came_s < slow.answered_s and slow.came_s < one.answered_s for one in calls.values()
    )


def test_a_connection_is_good_for_many_calls(asked: Counterparty) -> None:
    call(asked.address, 1, 2, 3)
    assert [one.operation_id for one in asked.calls()] == ["o-1", "o-2", "o-3"]
    assert asked.answered() == 3


def test_a_request_in_pieces_is_one_request(asked: Counterparty) -> None:
    connection = HTTPConnection(asked.address, timeout=LIMIT_S)
    connection.putrequest("POST", "/authData")
    connection.putheader("Content-Length", str(len(body(1))))
    connection.endheaders()
    for byte in body(1):
        connection.send(bytes([byte]))
    assert connection.getresponse().status == 200
    connection.close()


def test_who_hangs_up_before_the_answer_has_called_all_the_same(asked: Counterparty) -> None:
    connection = HTTPConnection(asked.address, timeout=LIMIT_S)
    connection.request("POST", "/authData", body(1))
    connection.close()
    call(asked.address, 2, 3)
    assert {one.operation_id for one in asked.calls()} == {"o-1", "o-2", "o-3"}


def test_another_address_is_not_found(asked: Counterparty) -> None:
    connection = HTTPConnection(asked.address, timeout=LIMIT_S)
    connection.request("GET", "/")
    assert connection.getresponse().status == 404
    connection.close()
