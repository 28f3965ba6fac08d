"""The account has teeth: red on each broken promise, and only there."""

import pytest

from feedback.status import State
from tests.chaos.account import Account, Told, settle_account, unsettled


def account(told: Told, *, charges: int = 1, journal: str | None = None) -> Account:
    rows = {"a": journal or str(told.last)}
    return settle_account({"a": told}, charges={"a": charges}, journal=rows, resent=0)


def test_told_once_charged_once_and_written_so_is_fine() -> None:
    assert account(Told(State.SUCCEEDED, State.SUCCEEDED, wait_s=0.5)).kept


def test_two_charges_are_red_whatever_was_told() -> None:
    assert account(Told(State.IN_DOUBT, State.IN_DOUBT), charges=2).ran_twice == ("a",)


def test_told_too_late_is_never_told() -> None:
    assert account(Told(None, State.SUCCEEDED)).never_told == ("a",)


@pytest.mark.parametrize(
    ("told", "charges"),
    [
        (Told(State.SUCCEEDED, State.SUCCEEDED), 0),
        (Told(State.FAILED, State.FAILED), 1),
        (Told(State.EXPIRED, State.EXPIRED), 1),
    ],
)
def test_a_status_that_the_bank_contradicts_is_red(told: Told, charges: int) -> None:
    assert account(told, charges=charges).told_wrongly == ("a",)


def test_a_status_that_the_journal_contradicts_is_red() -> None:
    found = account(Told(State.SUCCEEDED, State.SUCCEEDED), journal="IN_DOUBT")

    assert found.told_wrongly == ("a",)


def test_a_final_status_without_a_row_in_the_journal_is_red() -> None:
    told = {"a": Told(State.FAILED, State.FAILED)}
    found = settle_account(told, charges={}, journal={}, resent=0)

    assert found.told_wrongly == ("a",)


@pytest.mark.parametrize("later", [State.FAILED, State.IN_DOUBT])
def test_a_final_status_that_changed_is_red(later: State) -> None:
    assert account(Told(State.SUCCEEDED, State.SUCCEEDED, changed=later)).told_wrongly == ("a",)


@pytest.mark.parametrize(("later", "charges"), [(State.SUCCEEDED, 1), (State.FAILED, 0)])
def test_a_doubt_may_be_resolved_as_the_bank_has_it(later: State, charges: int) -> None:
    assert account(Told(State.IN_DOUBT, later), charges=charges).kept


def test_a_status_that_is_gone_at_the_end_is_red() -> None:
    told = {"a": Told(State.SUCCEEDED, State.UNKNOWN)}
    found = settle_account(told, charges={"a": 1}, journal={"a": "SUCCEEDED"}, resent=0)

    assert found.told_wrongly == ("a",)


def test_what_is_open_or_differs_from_the_journal_is_not_at_rest() -> None:
    told = {
        "open": Told(None, State.RUNNING),
        "differs": Told(None, State.FAILED),
        "rests": Told(None, State.SUCCEEDED),
    }
    journal = {"open": "CLAIMED", "differs": "SUCCEEDED", "rests": "SUCCEEDED"}

    assert list(unsettled(told, journal)) == ["open", "differs"]


def test_waits_are_counted_of_those_that_were_told() -> None:
    told = {
        f"request-{number}": Told(State.SUCCEEDED, State.SUCCEEDED, wait_s=number / 10)
        for number in range(1, 101)
    } | {"never": Told(None, State.PENDING)}
    found = settle_account(told, charges={}, journal={}, resent=3)

    assert (found.told_p95_s, found.told_max_s, found.resent) == (9.5, 10.0, 3)
