"""A copy of the open requests on PostgreSQL, and no index on a column that a run changes.

Workers of an earlier version read the older indexes: the next `migrate` takes these away (see
`consumer.journal.schema`). SQLite keeps them.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_BIGINT = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
_NAME = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_DEAD = (
    "state = 'FAILED' AND resend = 0 AND dead_letter_at IS NULL "
    "AND coalesce(code, '') <> 'PAYLOAD_GONE'"
)
_OUTCOME = (
    "outcome_generation < generation AND state IN ('SUCCEEDED', 'FAILED', 'EXPIRED', 'SKIPPED')"
)
_INDEXES = (
    ("claimed", ("group", "owner"), "state = 'CLAIMED'"),
    ("untold", ("group", "finished_at"), "published_at IS NULL AND state <> 'CLAIMED'"),
    ("retrying", ("group", "due_at"), "state = 'RETRYING'"),
    ("dead", ("group", "finished_at", "request_id"), _DEAD),
    ("outcome", ("group", "finished_at", "request_id"), _OUTCOME),
    (
        "order",
        ("group", "order_key"),
        "order_key IS NOT NULL AND state IN ('CLAIMED', 'RETRYING')",
    ),
    ("doubt", ("group", "topic", "finished_at"), "state = 'IN_DOUBT'"),
)
_IS_OPEN = (
    "published_at IS NULL OR state IN ('CLAIMED', 'RETRYING', 'IN_DOUBT') "
    f"OR ({_DEAD}) OR ({_OUTCOME})"
)
_KEY = ("group", "request_id")
_COPIED = (
    *_KEY, "topic", "generation", "state", "owner", "claimed_at", "due_at", "finished_at", "code",
    "resend", "published_at", "dead_letter_at", "outcome_generation", "order_key",
)  # fmt: skip
# Half of each page is left for the two versions of a row that an end and its word make.
_SETTINGS = (
    "ALTER TABLE onceward_request SET (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05)",
    "ALTER TABLE onceward_open SET (autovacuum_vacuum_scale_factor = 0, "
    "autovacuum_vacuum_threshold = 20000, autovacuum_analyze_scale_factor = 0, "
    "autovacuum_analyze_threshold = 20000)",
)
# The rights of whoever writes requests stay as they are: the triggers run as the tables' owner.
# Names are spelled out, and nothing is looked up where another role may make objects.
_FUNCTION = """
CREATE FUNCTION onceward_copy_{name}() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$ BEGIN {body} RETURN NULL; END $$
"""
_TRIGGER = """
CREATE TRIGGER onceward_copy_{name} AFTER {event} ON onceward_request
REFERENCING {side} TABLE AS changed FOR EACH STATEMENT EXECUTE FUNCTION onceward_copy_{name}()
"""
# To those that may read or change requests already.
_GRANTS = """
DO $$ DECLARE given record; BEGIN
FOR given IN SELECT DISTINCT acl.grantee, acl.privilege_type
    FROM pg_class, aclexplode(relacl) AS acl
    WHERE oid = 'onceward_request'::regclass AND acl.grantee <> relowner
    AND acl.privilege_type IN ('SELECT', 'UPDATE')
LOOP
    IF given.privilege_type = 'SELECT' THEN
        EXECUTE format('GRANT SELECT ON onceward_open_request, onceward_open_look TO %s',
            CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
    ELSE
        EXECUTE format('GRANT INSERT, UPDATE, DELETE ON onceward_open_look TO %s',
            CASE given.grantee WHEN 0 THEN 'PUBLIC' ELSE given.grantee::regrole::text END);
    END IF;
END LOOP; END $$
"""


def upgrade() -> None:
    """Make the copy. The open requests are read once, and nobody writes into any meanwhile."""
    if op.get_bind().dialect.name == "sqlite":
        return
    _make_tables()
    _make_triggers()
    _make_view()
    for _, _, condition in _INDEXES:
        columns = _names(_COPIED)
        op.execute(
            f"INSERT INTO onceward_open ({columns}) SELECT {columns} FROM onceward_request "
            f"WHERE {condition} ON CONFLICT DO NOTHING"
        )
    op.execute("INSERT INTO onceward_open_look VALUES ('migration', 0, 1)")
    for setting in (*_SETTINGS, _GRANTS):
        op.execute(setting)
    if op.get_bind().execute(sa.text("SELECT 1 FROM onceward_request LIMIT 1")).first() is None:
        for name, _, _ in _INDEXES:
            op.execute(f"DROP INDEX onceward_request_{name}")


def _make_tables() -> None:
    op.create_table(
        "onceward_open",
        sa.Column("group", _NAME, primary_key=True),
        sa.Column("request_id", _NAME, primary_key=True),
        sa.Column("topic", sa.Text, nullable=False),
        sa.Column("generation", _BIGINT, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.Column("owner", sa.Text, nullable=False),
        sa.Column("claimed_at", _BIGINT),
        sa.Column("due_at", _BIGINT),
        sa.Column("finished_at", _BIGINT),
        sa.Column("code", sa.Text),
        sa.Column("resend", sa.SmallInteger, nullable=False),
        sa.Column("published_at", _BIGINT),
        sa.Column("dead_letter_at", _BIGINT),
        sa.Column("outcome_generation", _BIGINT),
        sa.Column("order_key", sa.Text),
        prefixes=["UNLOGGED"],
    )
    op.create_table(
        "onceward_open_look",
        sa.Column("look", _NAME, primary_key=True),
        sa.Column("seen_at", _BIGINT, nullable=False),
        sa.Column("complete", sa.SmallInteger, nullable=False),
        prefixes=["UNLOGGED"],
    )
    for name, columns, condition in _INDEXES:
        where = sa.text(condition)
        op.create_index(
            f"onceward_open_{name}", "onceward_open", list(columns), postgresql_where=where
        )


def _make_triggers() -> None:
    schema = op.get_bind().execute(sa.text("SELECT quote_ident(current_schema())")).scalar_one()
    copy = f"{schema}.onceward_open"
    same = " AND ".join(f'copy."{name}" = changed."{name}"' for name in _KEY)
    columns = _names(_COPIED)
    others = [name for name in _COPIED if name not in _KEY]
    assigned = ", ".join(f'"{name}" = excluded."{name}"' for name in others)
    old = ", ".join(f'copy."{name}"' for name in others)
    new = ", ".join(f'excluded."{name}"' for name in others)
    kept = (
        f"INSERT INTO {copy} AS copy ({columns}) SELECT {columns} FROM changed WHERE {_IS_OPEN} "
        f"ON CONFLICT ({_names(_KEY)}) DO UPDATE SET {assigned} "
        f"WHERE ({old}) IS DISTINCT FROM ({new});"
    )
    deleted = f"DELETE FROM {copy} AS copy USING changed WHERE {same};"
    closed = (
        f"DELETE FROM {copy} AS copy USING (SELECT {_names(_KEY)} FROM changed "
        f"WHERE ({_IS_OPEN}) IS NOT TRUE) AS changed WHERE {same};"
    )
    for name, event, side, body in (
        ("new", "INSERT", "NEW", kept),
        ("changed", "UPDATE", "NEW", closed + kept),
        ("deleted", "DELETE", "OLD", deleted),
    ):
        op.execute(_FUNCTION.format(name=name, body=body))
        op.execute(_TRIGGER.format(name=name, event=event, side=side))


def _make_view() -> None:
    """Make the open requests readable with all columns, those of the copy as it has them."""
    found = op.get_bind().execute(
        sa.text(
            "SELECT attname FROM pg_attribute WHERE attrelid = 'onceward_request'::regclass "
            "AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
    )
    columns = ", ".join(f'{"copy" if name in _COPIED else "request"}."{name}"' for (name,) in found)
    same = " AND ".join(f'request."{name}" = copy."{name}"' for name in _KEY)
    op.execute(
        f"CREATE VIEW onceward_open_request AS SELECT {columns} "
        f"FROM onceward_open AS copy JOIN onceward_request AS request ON {same}"
    )


def _names(columns: tuple[str, ...]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
