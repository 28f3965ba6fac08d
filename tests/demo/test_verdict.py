"""The verdict has teeth: red on each broken promise, and only there."""

import pytest

from feedback.errors import ExitCode
from feedback.status import State
from tests.demo.verdict import Verdict, judge


def verdict(told: dict[str, State | None], charges: dict[str, int]) -> Verdict:
    return judge(told, charges, not_sent=(), resent=0, seconds=1.0)


def test_told_and_charged_once_is_fine() -> None:
    account = verdict({"a": State.SUCCEEDED, "b": State.SUCCEEDED}, {"a": 1, "b": 1})

    assert account.exit_code is ExitCode.FINE
    assert account.in_words() == "Nobody was charged twice, and every client was told."


def test_in_doubt_is_an_honest_answer_charged_or_not() -> None:
    account = verdict({"a": State.IN_DOUBT, "b": State.IN_DOUBT}, {"a": 1})

    assert account.exit_code is ExitCode.FINE
    assert (account.in_doubt, account.doubt_charged) == (2, ("a",))
    assert account.doubt_not_charged == ("b",)
    assert "2 are in doubt" in account.in_words()
    assert "the bank has 1 of 2" in account.in_words()


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.IN_DOUBT, None])
def test_a_second_charge_is_red_whatever_was_told(state: State | None) -> None:
    account = verdict({"a": state}, {"a": 2})

    assert account.exit_code is ExitCode.BAD_ANSWER
    assert account.as_json()["ran_twice"] == 1
    assert "1 charged more than once (a)" in account.in_words()


@pytest.mark.parametrize("state", [None, State.RUNNING, State.LOST, State.PENDING])
def test_a_client_without_a_final_status_is_red(state: State | None) -> None:
    account = verdict({"a": State.SUCCEEDED, "b": state}, {"a": 1, "b": 1})

    assert account.exit_code is ExitCode.BAD_ANSWER
    assert account.as_json()["never_told"] == 1
    assert "1 never told (b)" in account.in_words()


def test_a_success_that_was_not_charged_is_red() -> None:
    account = verdict({"a": State.SUCCEEDED}, {})

    assert account.exit_code is ExitCode.BAD_ANSWER
    assert account.told_wrongly == ("a",)
    assert "(a)" in account.in_words()


@pytest.mark.parametrize("state", [State.FAILED, State.EXPIRED, State.SKIPPED])
def test_a_charge_that_was_told_as_nothing_is_red(state: State) -> None:
    account = verdict({"a": state}, {"a": 1})

    assert account.exit_code is ExitCode.BAD_ANSWER
    assert account.told_wrongly == ("a",)
    assert account.failed == 1


def test_a_charge_that_nobody_sent_is_red() -> None:
    account = judge({}, {"a": 1}, not_sent=("a",), resent=0, seconds=1.0)

    assert account.exit_code is ExitCode.BAD_ANSWER
    assert account.told_wrongly == ("a",)


def test_many_ids_are_named_up_to_ten() -> None:
    account = verdict({f"payment-{number}": None for number in range(13)}, {})

    assert "payment-9 and 3 more" in account.in_words()


def test_the_numbers_have_the_names_of_the_contract() -> None:
    account = verdict({"a": State.SUCCEEDED, "b": State.IN_DOUBT, "c": State.FAILED}, {"a": 1})

    assert account.as_json() == {
        "sent": 3,
        "succeeded": 1,
        "failed": 1,
        "in_doubt": 1,
        "resent": 0,
        "ran_twice": 0,
        "never_told": 0,
        "seconds": 1.0,
    }
