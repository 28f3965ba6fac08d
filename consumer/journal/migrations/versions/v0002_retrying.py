"""What sweeps of retries and dead letters look for."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the indexes."""
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
