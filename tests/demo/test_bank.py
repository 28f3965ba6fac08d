"""The bank: what makes its account a proof."""

import threading
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest

from tests.demo.bank import REQUEST_ID, SLOW_S, USUAL_S, Bank, Ledger, account_of, delay_s
from tests.eventually import eventually
from tests.stack.ports import HOST


@pytest.fixture
def bank() -> Iterator[str]:
    """Yield the address of an open bank."""
    with Bank() as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.02,))
        serving.start()
        yield f"{HOST}:{server.server_port}"
        server.shutdown()
        serving.join()


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

    assert account_of(bank) == {"a": 2, "b": 1}


def test_what_names_no_request_is_refused_and_not_charged(bank: str) -> None:
    assert post(bank, "/charge", {}) == 400
    assert post(bank, "/elsewhere", {REQUEST_ID: "a"}) == 400

    assert account_of(bank) == {}


def test_a_caller_that_is_gone_before_the_answer_has_been_charged(bank: str) -> None:
    connection = HTTPConnection(bank, timeout=60)
    connection.request("POST", "/charge", body=b"{}", headers={REQUEST_ID: "a"})
    connection.close()

    # It may not have begun when the account is asked for.
    assert eventually(lambda: account_of(bank) == {"a": 1})


def test_the_account_waits_for_a_charge_under_way() -> None:
    ledger = Ledger()
    begun, shown = threading.Event(), threading.Event()

    def charge() -> None:
        with ledger.under_way():
            begun.set()
            assert not shown.wait(0.1)
            ledger.charge("a")

    charging = threading.Thread(target=charge)
    charging.start()
    begun.wait()
    account = ledger.account()
    shown.set()
    charging.join()

    assert account == {"a": 1}


def test_an_account_that_cannot_be_settled_is_not_shown() -> None:
    ledger = Ledger()

    with ledger.under_way(), pytest.raises(TimeoutError, match="1 charges still under way"):
        ledger.account(wait_s=0.01)


def test_one_in_a_hundred_is_slow_and_always_the_same() -> None:
    delays = {f"payment-{number:05}": delay_s(f"payment-{number:05}") for number in range(2000)}

    assert set(delays.values()) == {USUAL_S, SLOW_S}
    assert 10 <= sum(delay == SLOW_S for delay in delays.values()) <= 30
    assert all(delay_s(request_id) == delay for request_id, delay in delays.items())
