"""The rows of an outbox are counted by topic and state, or it is said why not; nothing is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import NullPool, create_engine, insert, text

from consumer.ops import outbox_counts as counting
from consumer.ops.outbox_counts import OutboxCount, outbox_counts
from feedback.clock import epoch_ms
from feedback.errors import NotAvailable
from feedback.settings.settings import Settings, load
from producer_client.outbox import migrate
from producer_client.outbox.tables import SCHEMA_VERSION, VERSION, RowState, meta, row
from tests.kit.databases import migrated

HOUR_MS = 3_600_000


def settings_of(url: str) -> Settings:
    return load(None, kafka={"group": "shop"}, outbox={"url": url})


def row_of(number: int, **given: Any) -> dict[str, Any]:
    """Return the columns of a row that waits since an hour."""
    waiting = {
        "group": "shop",
        "lane": number % 32,
        "request_id": f"order-{number}",
        "topic": "payments",
        "headers": "[]",
        "payload_sha256": "",
        "size_bytes": 1,
        "attempt": 1,
        "deadline_at": epoch_ms() + HOUR_MS,
        "created_at": epoch_ms() - HOUR_MS,
        "state": RowState.WAITING,
        "ended_at": None,
    }
    return waiting | given


def planted(url: str) -> None:
    """Make an outbox with a few rows in it."""
    migrated(url, migrate)
    ended = {"ended_at": epoch_ms()}
    rows = [
        row_of(1),
        row_of(2, created_at=epoch_ms()),
        row_of(3, state=RowState.PARKED, **ended),
        *(row_of(number, state=RowState.SENT, **ended) for number in (4, 5, 6)),
        row_of(7, topic="refunds", state=RowState.SENT, **ended),
        row_of(8, topic="refunds", group="another"),
    ]
    engine = create_engine(url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(insert(row), rows)


def test_rows_are_counted_by_topic_and_state(
    journal_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(journal_url)
    found = outbox_counts(settings_of(journal_url))
    assert not found.cut and found.by_topic.keys() == {"payments", "refunds"}
    payments = found.by_topic["payments"]
    assert payments.oldest_ms is not None and HOUR_MS <= payments.oldest_ms < 2 * HOUR_MS
    assert payments._replace(oldest_ms=None) == OutboxCount(waiting=2, parked=1, sent=3)
    assert found.by_topic["refunds"] == OutboxCount(sent=1)
    monkeypatch.setattr(counting, "MOST_ROWS", 3)
    # That many were sent says nothing of those that wait.
    assert outbox_counts(settings_of(journal_url)).cut == {"sent"}


def test_an_index_finds_them(sqlite_url: str) -> None:
    planted(sqlite_url)
    engine = create_engine(sqlite_url, poolclass=NullPool)
    with engine.connect() as connection:
        for one in counting._COUNTS:
            literal = one.compile(engine, compile_kwargs={"literal_binds": False})
            given = {name: "shop" if name == "this_group" else 9 for name in literal.params}
            plan = connection.exec_driver_sql(
                f"EXPLAIN QUERY PLAN {literal}",
                tuple(given[name] for name in literal.positiontup or ()),
            ).all()
            said = " ".join(str(step[3]) for step in plan)
            assert "USING INDEX onceward_outbox_" in said, said


def test_why_it_is_not_known_is_said(sqlite_url: str, tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="is empty"):
        outbox_counts(settings_of(""))
    with pytest.raises(NotAvailable, match="cannot be read"):
        outbox_counts(settings_of(sqlite_url))
    assert not list(tmp_path.iterdir())
    engine = create_engine(sqlite_url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE another (id INTEGER)"))
    with pytest.raises(NotAvailable, match="has no outbox"):
        outbox_counts(settings_of(sqlite_url))


def test_another_version_of_the_tables_is_not_read(sqlite_url: str) -> None:
    assert counting.VERSION == SCHEMA_VERSION
    planted(sqlite_url)
    engine = create_engine(sqlite_url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.execute(meta.update().where(meta.c.name == VERSION).values(value="3"))
    with pytest.raises(NotAvailable, match="version 3"):
        outbox_counts(settings_of(sqlite_url))
