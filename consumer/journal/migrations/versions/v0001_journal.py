"""The journal's first tables (docs: Tables)."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_SMALLINT = sa.SmallInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    _make_request()
    _make_run()
    op.create_table(
        "onceward_worker",
        sa.Column("worker_id", _NAME, primary_key=True),
        sa.Column("group", _NAME, nullable=False),
        sa.Column("lease_until", _BIGINT, nullable=False),
        sa.Column("started_at", _BIGINT, nullable=False),
        sqlite_strict=True,
    )
    op.create_table(
        "onceward_meta",
        sa.Column("name", _NAME, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sqlite_strict=True,
    )


def _make_request() -> None:
    op.create_table(
        "onceward_request",
        sa.Column("group", _NAME, primary_key=True),
        sa.Column("request_id", _NAME, primary_key=True),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", _BIGINT, nullable=False),
        sa.Column("message_key", sa.LargeBinary),
        sa.Column("payload_sha256", sa.Text, nullable=False),
        sa.Column("attempt", _BIGINT, nullable=False),
        sa.Column("generation", _BIGINT, nullable=False),
        sa.Column("effect_kind", sa.Text),
        sa.Column("effect_at", _BIGINT),
        sa.Column("deadline_at", _BIGINT, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("claimed_at", _BIGINT),
        sa.Column("due_at", _BIGINT),
        sa.Column("finished_at", _BIGINT),
        sa.Column("code", sa.Text),
        sa.Column("message", sa.Text),
        sa.Column("result", sa.Text),
        sa.Column("resend", _SMALLINT, nullable=False, server_default="0"),
        sa.Column("by", sa.Text),
        sa.Column("published_at", _BIGINT),
        sa.Column("dead_letter_at", _BIGINT),
        sa.Column("voids", sa.Integer, nullable=False, server_default="0"),
        sqlite_strict=True,
    )
    table = "onceward_request"
    claimed = sa.text("state = 'CLAIMED'")
    untold = sa.text("published_at IS NULL AND state <> 'CLAIMED'")
    op.create_index(
        "onceward_request_claimed",
        table,
        ["group", "owner"],
        postgresql_where=claimed,
        sqlite_where=claimed,
    )
    op.create_index(
        "onceward_request_untold",
        table,
        ["group", "finished_at"],
        postgresql_where=untold,
        sqlite_where=untold,
    )
    op.create_index("onceward_request_deadline", table, ["group", "deadline_at"])
    op.create_index("onceward_request_window", table, ["claimed_at"], postgresql_using="brin")


def _make_run() -> None:
    op.create_table(
        "onceward_run",
        sa.Column("id", _BIGINT, primary_key=True, autoincrement=True),
        sa.Column("group", _NAME, nullable=False),
        sa.Column("request_id", _NAME, nullable=False),
        sa.Column("generation", _BIGINT, nullable=False),
        sa.Column("attempt", _BIGINT, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("partition", sa.Integer, nullable=False),
        sa.Column("offset", _BIGINT, nullable=False),
        sa.Column("claimed_at", _BIGINT),
        sa.Column("effect_at", _BIGINT),
        sa.Column("ended_at", _BIGINT),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.Column("by_whom", sa.Text, nullable=False),
        sa.Column("allowed_by", sa.Text),
        sqlite_strict=True,
        sqlite_autoincrement=True,
    )
    op.create_index("onceward_run_request", "onceward_run", ["group", "request_id"])
