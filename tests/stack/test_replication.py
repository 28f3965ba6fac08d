"""The standby: it loses what it had not received, or nothing where commits wait for it."""

from collections.abc import Iterator

import psycopg
import pytest

from tests.stack.postgres import dsn
from tests.stack.replication import Replicated, replicated


@pytest.fixture
def pair() -> Iterator[Replicated]:
    """Yield a primary with an asynchronous standby."""
    with replicated() as made:
        yield made


def commit(pair: Replicated, number: int) -> None:
    with psycopg.connect(dsn(pair.url())) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS claim (id integer)")
        connection.execute("INSERT INTO claim VALUES (%s)", (number,))


def committed(pair: Replicated) -> list[int]:
    with psycopg.connect(dsn(pair.url())) as connection:
        return [one for (one,) in connection.execute("SELECT id FROM claim ORDER BY id")]


def test_a_promoted_standby_has_lost_what_was_acknowledged_while_it_lagged(
    pair: Replicated,
) -> None:
    commit(pair, 1)
    pair.catch_up()
    pair.lag()
    commit(pair, 2)
    pair.fail_over()
    assert committed(pair) == [1]
    commit(pair, 3)
    assert committed(pair) == [1, 3]


def test_a_synchronous_standby_has_all_that_was_acknowledged() -> None:
    with replicated(synchronous=True) as pair:
        commit(pair, 1)
        pair.fail_over()
        assert committed(pair) == [1]
