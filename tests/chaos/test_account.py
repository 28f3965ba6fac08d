"""The account has teeth: red on each broken promise, and only there."""

from dataclasses import replace

import pytest

from feedback.status import State
from tests.chaos.account import Account, Forgotten, Told, settle_account, unsettled


def account(told: Told, *, charges: int = 1, journal: str | None = None) -> Account:
    rows = {"a": journal or str(told.last)}
    counted = {"a": charges}
    return settle_account({"a": told}, ordered=counted, charged=counted, journal=rows, resent=0)


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
    found = settle_account(told, ordered={}, charged={}, journal={}, resent=0)

    assert found.told_wrongly == ("a",)


@pytest.mark.parametrize("later", [State.FAILED, State.IN_DOUBT])
def test_a_final_status_that_changed_is_red(later: State) -> None:
    assert account(Told(State.SUCCEEDED, State.SUCCEEDED, changed=later)).told_wrongly == ("a",)


@pytest.mark.parametrize(("later", "charges"), [(State.SUCCEEDED, 1), (State.FAILED, 0)])
def test_a_doubt_may_be_resolved_as_the_bank_has_it(later: State, charges: int) -> None:
    assert account(Told(State.IN_DOUBT, later), charges=charges).kept


def test_a_status_that_is_gone_at_the_end_is_red() -> None:
    told = {"a": Told(State.SUCCEEDED, State.UNKNOWN)}
    found = settle_account(
        told, ordered={"a": 1}, charged={"a": 1}, journal={"a": "SUCCEEDED"}, resent=0
    )

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
    found = settle_account(told, ordered={}, charged={}, journal={}, resent=3)

    assert (found.told_p95_s, found.told_max_s, found.resent) == (9.5, 10.0, 3)


def asked_twice(first: Told | None, *, charged: dict[str, int], journal: dict[str, str]) -> Account:
    """Return the account of an order that was asked for under a second id, which succeeded; None
    is a first that was told NotSent."""
    told = {"a.2": Told(State.SUCCEEDED, State.SUCCEEDED)}
    return settle_account(
        told if first is None else told | {"a": first},
        ordered={"a": sum(charged.values())},
        charged=charged,
        journal={"a.2": "SUCCEEDED"} | journal,
        resent=0,
        not_sent=("a",) if first is None else (),
        orders=1,
    )


def test_what_failed_may_be_asked_for_under_another_id() -> None:
    failed = Told(State.FAILED, State.FAILED)
    found = asked_twice(failed, charged={"a.2": 1}, journal={"a": "FAILED"})

    assert found.kept
    assert (found.orders, found.requests, found.asked_anew) == (1, 2, 1)


def test_an_order_that_two_of_its_requests_charged_ran_twice() -> None:
    failed = Told(State.FAILED, State.FAILED)
    found = asked_twice(failed, charged={"a": 1, "a.2": 1}, journal={"a": "FAILED"})

    assert found.ran_twice == ("a",)
    assert found.told_wrongly == ("a",)


def test_what_failed_and_happened_later_was_told_wrongly() -> None:
    first = Told(State.FAILED, State.SUCCEEDED)
    found = asked_twice(first, charged={"a": 1, "a.2": 1}, journal={"a": "SUCCEEDED"})

    assert found.told_wrongly == ("a",)


def test_not_sent_and_nowhere_is_fine() -> None:
    assert asked_twice(None, charged={"a.2": 1}, journal={}).kept


def test_what_was_told_wrongly_comes_with_what_everybody_says_of_it() -> None:
    found = account(Told(State.FAILED, State.FAILED), charges=1)

    assert found.words == {"a": "told FAILED, then FAILED; journal FAILED; charged 1"}


@pytest.mark.parametrize(
    ("charged", "journal"), [({"a": 1}, {}), ({}, {"a": "FAILED"}), ({}, {"a": "CLAIMED"})]
)
def test_not_sent_and_found_anywhere_was_told_wrongly(
    charged: dict[str, int], journal: dict[str, str]
) -> None:
    found = asked_twice(None, charged={"a.2": 1} | charged, journal=journal)

    assert found.told_wrongly == ("a",)


def with_loss(told: Told, forgotten: Forgotten, journal: dict[str, str]) -> Account:
    counted = {"a": 1}
    return settle_account(
        {"a": told},
        ordered=counted,
        charged=counted,
        journal=journal,
        resent=0,
        forgotten=forgotten,
    )


def test_what_a_server_threw_away_may_be_missing_and_nothing_else() -> None:
    stands = Told(State.SUCCEEDED, State.SUCCEEDED)
    gone = Told(State.SUCCEEDED, State.UNKNOWN)

    assert with_loss(stands, Forgotten.ROWS, {}).kept
    assert with_loss(stands, Forgotten.ROWS, {"a": "CLAIMED"}).told_wrongly == ("a",)
    assert with_loss(gone, Forgotten.STATUSES, {"a": "SUCCEEDED"}).kept
    assert with_loss(gone, Forgotten.ROWS, {"a": "SUCCEEDED"}).told_wrongly == ("a",)
    assert with_loss(stands, Forgotten.STATUSES, {}).told_wrongly == ("a",)


def test_a_charge_that_the_database_lost_with_its_row_is_no_lie_of_ours() -> None:
    told = Told(State.SUCCEEDED, State.SUCCEEDED, in_database=True)
    lost: dict[str, str] = {}

    def found(told: Told, forgotten: Forgotten) -> tuple[str, ...]:
        return settle_account(
            {"a": told}, ordered={}, charged={}, journal=lost, resent=0, forgotten=forgotten
        ).told_wrongly

    assert found(told, Forgotten.ROWS) == ()
    assert found(replace(told, in_database=False), Forgotten.ROWS) == ("a",)
    assert found(told, Forgotten.NOTHING) == ("a",)
