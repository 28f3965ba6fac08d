"""The marks of pruning, and the declaration of each run: promises rest on both."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")


def upgrade() -> None:
    """Make the table and the columns. The policy of earlier claims is unknown."""
    op.add_column("onceward_request", sa.Column("in_doubt", sa.Text))
    op.add_column("onceward_run", sa.Column("effect_kind", sa.Text))
    op.add_column("onceward_run", sa.Column("in_doubt", sa.Text))
    op.create_table(
        "onceward_forgotten",
        sa.Column("group", _NAME, primary_key=True),
        sa.Column("topic", _NAME, primary_key=True),
        sa.Column("partition", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("next_offset", _BIGINT, nullable=False),
        sa.Column("deadline_at", _BIGINT, nullable=False),
        sa.Column("pruned_at", _BIGINT, nullable=False),
        sqlite_strict=True,
    )
