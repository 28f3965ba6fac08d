"""Transactional handlers: their writes and the finish come together or not at all."""

import uuid
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from typing import Any

import psycopg
import pytest
from sqlalchemy import create_engine, text

from consumer.journal import Claim, Journal, VerdictKind, Work
from consumer.pool import Outcome
from consumer.pool.job import PoolSettings
from consumer.pool.transactional import TransactionalRuns
from feedback.clock import epoch_ms
from feedback.status import State
from tests.consumer.pool.conftest import MakePool
from tests.consumer.pool.driving import Driven, job
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.stack.postgres import Postgres, dsn
from tests.stack.restartable import restartable

GROUP = "payments"
DONE = Outcome(State.SUCCEEDED, result="1")
HANDLERS = ("tests.consumer.pool.transactional_handlers",)


class Theatre:
    """A journal with a table of seats, and a pool whose handlers book them."""

    def __init__(self, url: str, make_pool: MakePool) -> None:
        migrated(url)
        self._engine = create_engine(url)
        with self._engine.begin() as connection:
            connection.execute(text("CREATE TABLE seat (name TEXT)"))
        self._journal = Journal(url, group=GROUP, worker_id="w1")
        self.driven: Driven = make_pool(handlers=HANDLERS, journal_url=url, slots_per_process=2)

    def claim(self, request_id: str) -> None:
        claim = Claim(
            request_id=request_id,
            topic="book",
            partition=0,
            offset=1,
            message_key=None,
            payload_sha256="00",
            attempt=1,
            deadline_at=2**52,
            effect_kind="transactional",
        )
        (verdict,) = self._journal.apply(Work(claims=[claim])).verdicts
        assert verdict.kind is VerdictKind.RUN

    def seats(self) -> list[str]:
        with self._engine.connect() as connection:
            return [str(row[0]) for row in connection.execute(text("SELECT name FROM seat"))]

    def state(self, request_id: str) -> str:
        query = text("SELECT state FROM onceward_request WHERE request_id = :id")
        with self._engine.connect() as connection:
            return str(connection.execute(query, {"id": request_id}).scalar_one())

    def close(self) -> None:
        self._journal.close()
        self._engine.dispose()


@pytest.fixture
def theatre(journal_url: str, make_pool: MakePool) -> Iterator[Theatre]:
    """Return an empty theatre on each kind of journal."""
    made = Theatre(journal_url, make_pool)
    yield made
    made.driven.kill()
    made.close()


def test_the_writes_are_committed_with_the_finish(theatre: Theatre) -> None:
    theatre.claim("a1")
    outcome = theatre.driven.run([job("book", request_id="a1")])["a1"]
    assert outcome == Outcome(State.SUCCEEDED, result='{"seat":"a1"}', committed=True)
    assert (theatre.seats(), theatre.state("a1")) == (["a1"], "SUCCEEDED")


def test_a_claim_that_is_gone_leaves_nothing_of_the_run(theatre: Theatre) -> None:
    theatre.claim("a1")
    late = job("book", request_id="a1", generation=2)
    outcome = theatre.driven.run([late])["a1"]
    assert (outcome.stale, outcome.committed) == (True, False)
    assert (theatre.seats(), theatre.state("a1")) == ([], "CLAIMED")


@pytest.mark.parametrize(
    ("topic", "code"), [("book-and-raise", "HANDLER_ERROR"), ("book-and-reject", "TAKEN")]
)
def test_a_run_that_raises_is_rolled_back_and_left_to_the_parent_to_finish(
    theatre: Theatre, topic: str, code: str
) -> None:
    theatre.claim("a1")
    outcome = theatre.driven.run([job(topic, request_id="a1")])["a1"]
    assert (outcome.state, outcome.code, outcome.resend) == (State.FAILED, code, False)
    assert not outcome.committed
    assert (theatre.seats(), theatre.state("a1")) == ([], "CLAIMED")


def test_a_try_that_failed_leaves_nothing_to_the_one_that_succeeds(theatre: Theatre) -> None:
    theatre.claim("a1")
    tried = job("book-and-try", request_id="a1", deadline_at=epoch_ms() + 60_000)
    outcome = theatre.driven.run([tried])["a1"]
    assert (outcome.state, outcome.committed) == (State.SUCCEEDED, True)
    assert (theatre.seats(), theatre.state("a1")) == (["a1"], "SUCCEEDED")


def test_a_child_that_dies_in_the_middle_leaves_nothing(theatre: Theatre) -> None:
    theatre.claim("a1")
    theatre.driven.pool.dispatch([job("book-and-die", request_id="a1")])
    assert [one.request_id for one in theatre.driven.death().started] == ["a1"]
    assert (theatre.seats(), theatre.state("a1")) == ([], "CLAIMED")


def test_two_runs_at_the_same_time_have_a_transaction_each(theatre: Theatre) -> None:
    names = [uuid.uuid4().hex for _ in range(20)]
    for name in names:
        theatre.claim(name)
    for pair in zip(names[::2], names[1::2], strict=True):
        theatre.driven.run([job("book", request_id=name) for name in pair])
    assert sorted(theatre.seats()) == sorted(names)


def test_a_run_without_a_connection_has_not_begun(make_pool: MakePool) -> None:
    url = "sqlite:////dev/null/nowhere/journal.db"
    driven = make_pool(handlers=HANDLERS, journal_url=url)
    outcome = driven.run([job("book")])["r1"]
    assert (outcome.unbegun, outcome.resend) == (True, False)


def test_a_run_waits_for_a_connection_and_an_idle_child_gives_its_own_back() -> None:
    few = {"max_connections": "6"}
    with restartable(lambda: Postgres(settings=few)) as server, ExitStack() as opened:
        migrated(server.address)
        claim_as_transactional(server.address, "a1")
        settings = PoolSettings(HANDLERS, GROUP, journal_url=server.address, worker_id="w1")
        runs = TransactionalRuns(settings)
        others: list[psycopg.Connection[Any]] = []
        opened.callback(close_all, others)
        take_all(server.address, others)
        book = job("book", request_id="a1")
        assert runs.run(book, lambda connection: DONE).unbegun
        others.pop().close()
        # As often as the worker asks for it.
        eventually(lambda: runs.run(book, lambda connection: DONE).committed)
        assert take_all(server.address, others) == 0
        eventually(lambda: take_all(server.address, others) > 0)


def claim_as_transactional(url: str, request_id: str) -> None:
    one = Claim(request_id, "book", 0, 1, None, "00", 1, 2**52, "transactional")
    with closing(Journal(url, group=GROUP, worker_id="w1")) as journal:
        journal.apply(Work(claims=[one]))


def close_all(others: list[psycopg.Connection[Any]]) -> None:
    for one in others:
        one.close()


def take_all(url: str, others: list[psycopg.Connection[Any]]) -> int:
    """Take every connection that the server has left; return how many that were."""
    before = len(others)
    with suppress(psycopg.OperationalError):
        while True:
            others.append(psycopg.connect(dsn(url)))
    return len(others) - before
