"""The index of open doubts: they can be counted without a look at any other row."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the index. The table is read once, and nobody writes into it meanwhile."""
    in_doubt = sa.text("state = 'IN_DOUBT'")
    op.create_index(
        "onceward_request_doubt",
        "onceward_request",
        ["group", "topic", "finished_at"],
        postgresql_where=in_doubt,
        sqlite_where=in_doubt,
    )
