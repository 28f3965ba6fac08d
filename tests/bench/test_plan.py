"""What is measured, by name and in turn."""

import pytest

from tests.bench.plan import Case, Plan, System, turned


def test_a_case_has_the_name_it_is_asked_by() -> None:
    assert [Case.named(name).name for name in ("burst", "rate-50")] == ["burst", "rate-50"]


@pytest.mark.parametrize("name", ["", "rate", "rate-", "rate-0", "rate-x", "storm"])
def test_another_case_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(ValueError, match="burst or rate-"):
        Case.named(name)


def test_every_system_begins_one_of_three_rounds() -> None:
    assert {turned(tuple(System), number)[0] for number in (1, 2, 3)} == set(System)
    assert set(turned(tuple(System), 2)) == set(System)


def test_a_system_is_a_product_on_a_journal() -> None:
    assert (System.ONCEWARD_SQLITE.product, System.ONCEWARD_SQLITE.journal) == (
        "onceward",
        "sqlite",
    )
    assert (System.CELERY.product, System.CELERY.journal) == ("celery", None)


def test_the_warm_up_is_a_tenth_of_the_burst_within_limits() -> None:
    assert Plan(burst=300).warm_up_of(System.CELERY) == 30
    assert Plan(burst=5).warm_up_of(System.CELERY) == 1
    assert Plan(burst=10**6).warm_up_of(System.CELERY) == 2000
