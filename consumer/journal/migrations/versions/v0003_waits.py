"""The tables of the registry of unfinished requests."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def _place() -> tuple[sa.Column[str], sa.Column[str], sa.Column[int]]:
    return (
        sa.Column("group", _NAME, primary_key=True),
        sa.Column("wait_topic", _NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
    )


def upgrade() -> None:
    op.create_table(
        "onceward_wait",
        *_place(),
        sa.Column("request_id", _NAME, primary_key=True),
        sa.Column("offset", _BIGINT, nullable=False),
        sa.Column("expires_at", _BIGINT, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("generation", _BIGINT, nullable=False),
        sa.Column("written_at", _BIGINT, nullable=False),
        sqlite_strict=True,
    )
    op.create_index(
        "onceward_wait_due", "onceward_wait", ["group", "wait_topic", "partition", "expires_at"]
    )
    op.create_table(
        "onceward_wait_expiry",
        *_place(),
        sa.Column("request_id", _NAME, primary_key=True),
        sa.Column("offset", _BIGINT, nullable=False),
        sa.Column("expires_at", _BIGINT, nullable=False),
        sa.Column("holder", sa.Text, nullable=False),
        sa.Column("generation", _BIGINT, nullable=False),
        sa.Column("begun_at", _BIGINT, nullable=False),
        sa.Column("letter_partition", sa.Integer, nullable=False),
        sa.Column("letter_mark", _BIGINT, nullable=False),
        sa.Column("ended_offset", _BIGINT),
        sqlite_strict=True,
    )
    op.create_table(
        "onceward_wait_partition",
        *_place(),
        sa.Column("topic_id", sa.Text, nullable=False),
        sa.Column("position", _BIGINT, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("lease_until", _BIGINT, nullable=False),
        sqlite_strict=True,
    )
