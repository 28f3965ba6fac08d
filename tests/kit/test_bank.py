"""The bank: what makes its account a proof."""

import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from onceward.servers.ports import HOST
from tests.eventually import eventually
from tests.kit.bank import (
    REQUEST_ID,
    SLOW_S,
    USUAL_S,
    Bank,
    Books,
    LineBank,
    charges_at,
    delay_s,
)
from tests.kit.banking import BankConnection, account_of
from tests.kit.serving import serving


@pytest.fixture
def bank() -> Iterator[str]:
    """Yield the address of a bank that speaks HTTP."""
    with serving(server := Bank()):
        yield f"{HOST}:{server.server_port}"


def post(address: str, path: str, headers: dict[str, str]) -> int:
    connection = HTTPConnection(address, timeout=60)
    try:
        connection.request("POST", path, body=b"{}", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_each_charge_of_a_request_counts(bank: str) -> None:
    for request_id in ("a", "b", "a"):
        assert post(bank, "/charge", {REQUEST_ID: request_id}) == 200

    assert charges_at(bank) == {"a": 2, "b": 1}


def test_what_names_no_request_is_refused_and_not_charged(bank: str) -> None:
    assert post(bank, "/charge", {}) == 400
    assert post(bank, "/elsewhere", {REQUEST_ID: "a"}) == 400

    assert charges_at(bank) == {}


def test_a_caller_that_is_gone_before_the_answer_has_been_charged(bank: str) -> None:
    connection = HTTPConnection(bank, timeout=60)
    connection.request("POST", "/charge", body=b"{}", headers={REQUEST_ID: "a"})
    connection.close()

    # It may not have begun when the account is asked for.
    assert eventually(lambda: charges_at(bank) == {"a": 1})


def test_the_account_waits_for_a_charge_under_way() -> None:
    books = Books()
    begun, shown = threading.Event(), threading.Event()

    def charge() -> None:
        with books.under_way():
            begun.set()
            assert not shown.wait(0.1)
            books.charge("a", "a")

    charging = threading.Thread(target=charge)
    charging.start()
    begun.wait()
    account = books.settled()
    shown.set()
    charging.join()

    assert account == {"a": 1}


def test_an_account_that_cannot_be_settled_is_not_shown() -> None:
    books = Books()

    with books.under_way(), pytest.raises(TimeoutError, match="1 charges still under way"):
        books.settled(wait_s=0.01)


def test_one_in_a_hundred_is_slow_and_always_the_same() -> None:
    delays = {f"payment-{number:05}": delay_s(f"payment-{number:05}") for number in range(2000)}

    assert set(delays.values()) == {USUAL_S, SLOW_S}
    assert 10 <= sum(delay == SLOW_S for delay in delays.values()) <= 30
    assert all(delay_s(request_id) == delay for request_id, delay in delays.items())


@pytest.fixture
def line_bank() -> Iterator[str]:
    """Yield the address of a bank that is spoken to in lines."""
    with serving(server := LineBank()):
        yield f"{HOST}:{server.server_address[1]}"


@pytest.fixture
def connection(line_bank: str) -> Iterator[BankConnection]:
    """Yield a connection to the bank."""
    made = BankConnection(line_bank)
    yield made
    made.close()


def test_the_line_bank_charges_as_often_as_it_is_asked(
    line_bank: str, connection: BankConnection
) -> None:
    for request_id in ("a", "a", "a.2"):
        connection.ask("charge", "a", request_id)

    assert account_of(line_bank).by_request() == {"a": 2, "a.2": 1}
    assert account_of(line_bank).by_order() == {"a": 3}


def test_the_bank_charges_a_key_once_and_another_key_again(
    line_bank: str, connection: BankConnection
) -> None:
    for key in ("one", "one", "two"):
        connection.ask("charge-once", "a", "a", key)

    assert account_of(line_bank).by_order() == {"a": 2}


def test_the_bank_remembers_who_began_what(line_bank: str, connection: BankConnection) -> None:
    connection.tell("begin", "a", 7)

    assert connection.ask("begun") == "1"
    (begin,) = account_of(line_bank).begins
    assert (begin.request_id, begin.pid) == ("a", 7)


def test_who_waits_at_a_gate_goes_on_when_it_is_opened(
    line_bank: str, connection: BankConnection
) -> None:
    connection.tell("wait", "g")
    other = BankConnection(line_bank)
    other.ask("open", "g")
    other.close()

    assert connection.ask("begun") == "ok"  # the answer of the wait comes first
