"""What is measured, by name and in turn."""

import pytest

from tests.bench.__main__ import systems_named, systems_of
from tests.bench.plan import Case, Plan, System, turned
from tests.bench.systems.peers import PEERS


def test_a_case_has_the_name_it_is_asked_by() -> None:
    assert [Case.named(name).name for name in ("burst", "rate-50")] == ["burst", "rate-50"]


@pytest.mark.parametrize("name", ["", "rate", "rate-", "rate-0", "rate-x", "storm"])
def test_another_case_is_refused_with_the_names_there_are(name: str) -> None:
    with pytest.raises(ValueError, match="burst or rate-"):
        Case.named(name)


def test_every_system_begins_one_of_as_many_rounds() -> None:
    systems = Plan().systems
    rounds = [turned(systems, number) for number in range(1, len(systems) + 1)]
    assert {first for first, *_ in rounds} == set(systems)
    assert {frozenset(one) for one in rounds} == {frozenset(systems)}


def test_a_system_is_a_product_on_a_journal_by_an_engine() -> None:
    ours = System.POSTGRES_KAFKA_PYTHON
    assert (ours.product, ours.journal, ours.engine) == ("onceward", "postgres", "kafka-python")
    assert (System.CELERY.product, System.CELERY.journal, System.CELERY.engine) == (
        "celery",
        None,
        None,
    )


def test_a_journal_without_an_engine_has_that_of_auto() -> None:
    text = "onceward-postgres,onceward-sqlite-confluent"
    assert systems_named(text) == (System.POSTGRES_KAFKA_PYTHON, System.SQLITE_CONFLUENT)


def test_nothing_but_celery_is_installed_beside_us_unless_peers_are_asked_for() -> None:
    ours = {one for one in System if one.journal is not None}
    assert {*systems_of(None, peers=False)} == {*ours, System.CELERY}
    assert {*systems_of(None, peers=True)} == {*System}
    assert systems_of((System.CELERY, System.SQLITE_CONFLUENT), peers=True) == (
        System.CELERY,
        System.SQLITE_CONFLUENT,
        System.DRAMATIQ,
        System.FASTSTREAM,
    )


def test_each_system_that_is_not_ours_is_a_peer() -> None:
    assert {*PEERS} == {one for one in System if one.journal is None}
    assert [one.product for one in PEERS.values()] == [*map(str, PEERS)]


def test_the_warm_up_is_a_tenth_of_the_burst_within_limits() -> None:
    assert Plan(burst=300).warm_up_of(System.CELERY) == 30
    assert Plan(burst=5).warm_up_of(System.CELERY) == 1
    assert Plan(burst=10**6).warm_up_of(System.CELERY) == 2000
