"""Rows that wait for one SQLite file: they share a commit, and each is told how it ended."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from sqlalchemy import Engine, event

from feedback.records.envelope import Envelope
from feedback.records.stored_payload import StoredPayload
from producer_client.outbox.errors import OutboxUnavailable, RowRefused
from producer_client.outbox.row_writer import RowWriter
from producer_client.submission import Prepared
from tests.producer_client.outbox.conftest import Rows

CALLERS = 20
LIMIT_S = 60
REFUSE = """
CREATE TRIGGER refuses BEFORE INSERT ON onceward_outbox WHEN NEW.request_id = 'bad'
BEGIN SELECT RAISE({}, 'refused'); END
"""

pytestmark = pytest.mark.parametrize("outbox_url", ["sqlite"], indirect=True)


@pytest.fixture
def writer(outbox_url: str) -> Iterator[RowWriter]:
    """Yield a writer that waits for as long as another program writes."""
    made = RowWriter(outbox_url, group="g", timeout_s=LIMIT_S, notify=True)
    yield made
    made.close()


@pytest.fixture
def commits() -> Iterator[list[object]]:
    """Return a list that grows with each commit of any engine."""
    seen: list[object] = []

    def note(connection: object) -> None:
        seen.append(connection)

    event.listen(Engine, "commit", note)
    yield seen
    event.remove(Engine, "commit", note)


@contextmanager
def _busy(url: str) -> Iterator[None]:
    """Hold the file's write lock, as a program that writes for long."""
    other = sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    yield
    other.execute("COMMIT")
    other.close()


def _refuse(engine: Engine, how: str) -> None:
    with engine.begin() as connection:
        connection.exec_driver_sql(REFUSE.format(how))


def _request(name: str) -> Prepared:
    return Prepared(
        Envelope(name, 1, 0), StoredPayload("t", b"k", b"v"), "sha", named_by_caller=True
    )


def _written(rows: Rows) -> list[str]:
    return [one["request_id"] for one in rows()]


def test_what_waits_together_is_one_commit_in_the_order_of_the_calls(
    writer: RowWriter, outbox_url: str, rows: Rows, commits: list[object]
) -> None:
    names = [f"r{n}" for n in range(CALLERS)]
    with _busy(outbox_url):
        waiting = [writer.put(_request(name)) for name in names]
    for one in waiting:
        one.result(LIMIT_S)
    assert len(commits) == 1
    assert _written(rows) == names


def test_a_caller_that_has_gone_leaves_no_row(
    writer: RowWriter, outbox_url: str, rows: Rows
) -> None:
    with _busy(outbox_url):
        first, gone, last = (writer.put(_request(name)) for name in ("a", "b", "c"))
        assert gone.cancel()
    first.result(LIMIT_S)
    last.result(LIMIT_S)
    assert _written(rows) == ["a", "c"]


def test_a_database_that_was_away_takes_the_next_row(outbox_url: str, rows: Rows) -> None:
    writer = RowWriter(outbox_url, group="g", timeout_s=0.1, notify=True)
    with _busy(outbox_url), pytest.raises(OutboxUnavailable):
        writer.put(_request("told")).result(LIMIT_S)
    writer.put(_request("next")).result(LIMIT_S)
    writer.close()
    assert _written(rows) == ["next"]


def test_a_row_that_is_refused_is_refused_alone(
    writer: RowWriter, outbox_url: str, engine: Engine, rows: Rows
) -> None:
    _refuse(engine, "ABORT")
    with _busy(outbox_url):
        first, bad, last = (writer.put(_request(name)) for name in ("a", "bad", "c"))
    first.result(LIMIT_S)
    last.result(LIMIT_S)
    with pytest.raises(RowRefused):
        bad.result(LIMIT_S)
    assert _written(rows) == ["a", "c"]


def test_what_a_trigger_rolls_back_is_told_to_all_whose_rows_it_takes(
    writer: RowWriter, outbox_url: str, engine: Engine, rows: Rows
) -> None:
    _refuse(engine, "ROLLBACK")
    with _busy(outbox_url):
        together = [writer.put(_request(name)) for name in ("a", "bad", "c")]
    for one in together:
        with pytest.raises(RowRefused):
            one.result(LIMIT_S)
    writer.put(_request("d")).result(LIMIT_S)
    assert _written(rows) == ["d"]


def test_a_writer_that_is_closed_writes_what_it_began_and_cancels_what_waits(
    outbox_url: str, rows: Rows
) -> None:
    writer = RowWriter(outbox_url, group="g", timeout_s=0.1, notify=True)
    with _busy(outbox_url):
        waiting = [writer.put(_request(str(n))) for n in range(3)]
        writer.close()
    assert all(one.done() for one in waiting)
    assert waiting[-1].cancelled()
    assert rows() == []
