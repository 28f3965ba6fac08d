"""The indexes that sweeps of retries and dead letters need."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    retrying = sa.text("state = 'RETRYING'")
    op.create_index(
        "onceward_request_retrying",
        "onceward_request",
        ["group", "due_at"],
        postgresql_where=retrying,
        sqlite_where=retrying,
    )
    dead = sa.text(
        "state = 'FAILED' AND resend = 0 AND dead_letter_at IS NULL "
        "AND coalesce(code, '') <> 'PAYLOAD_GONE'"
    )
    op.create_index(
        "onceward_request_dead",
        "onceward_request",
        ["group", "finished_at", "request_id"],
        postgresql_where=dead,
        sqlite_where=dead,
    )
    bigint = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.add_column("onceward_request", sa.Column("outcome_generation", bigint))
    outcome = sa.text(
        "outcome_generation < generation AND state IN ('SUCCEEDED', 'FAILED', 'EXPIRED', 'SKIPPED')"
    )
    op.create_index(
        "onceward_request_outcome",
        "onceward_request",
        ["group", "finished_at", "request_id"],
        postgresql_where=outcome,
        sqlite_where=outcome,
    )
    _make_order()
    _make_action()
    _make_redrive()
    _make_pause()


def _make_order() -> None:
    op.add_column("onceward_request", sa.Column("order_key", sa.Text))
    holds = sa.text("order_key IS NOT NULL AND state IN ('CLAIMED', 'RETRYING')")
    op.create_index(
        "onceward_request_order",
        "onceward_request",
        ["group", "order_key"],
        postgresql_where=holds,
        sqlite_where=holds,
    )


def _make_action() -> None:
    op.create_table(
        "onceward_action",
        sa.Column("id", _BIGINT, primary_key=True, autoincrement=True),
        sa.Column("group", _NAME, nullable=False),
        sa.Column("request_id", _NAME),
        sa.Column("action", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("at", _BIGINT, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("redrive_id", _NAME),
        sa.Column("generation", _BIGINT),
        sqlite_strict=True,
        sqlite_autoincrement=True,
    )
    op.create_index("onceward_action_request", "onceward_action", ["group", "request_id"])


def _make_redrive() -> None:
    op.create_table(
        "onceward_redrive",
        sa.Column("group", _NAME, primary_key=True),
        sa.Column("redrive_id", _NAME, primary_key=True),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("started_at", _BIGINT, nullable=False),
        sa.Column("updated_at", _BIGINT, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("filter", sa.Text, nullable=False),
        sa.Column("spans", sa.Text, nullable=False),
        sa.Column("positions", sa.Text, nullable=False),
        sa.Column("marks", sa.Text, nullable=False),
        sa.Column("unconfirmed", sa.Text, nullable=False),
        sa.Column("counts", sa.Text, nullable=False),
        sqlite_strict=True,
    )


def _make_pause() -> None:
    op.create_table(
        "onceward_pause",
        sa.Column("group", _NAME, primary_key=True),
        sa.Column("topic", _NAME, primary_key=True),
        sa.Column("since", _BIGINT, nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("resumed_at", _BIGINT),
        sa.Column("resumed_by", sa.Text),
        sqlite_strict=True,
    )
