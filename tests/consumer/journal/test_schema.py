"""Migrations, the version and the journal's id."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import NullPool, create_engine, make_url

from consumer.journal import Journal, JournalVersionError, Work, migrate
from consumer.journal.tables import PARTIAL_INDEXES, SCHEMA_VERSION
from consumer.journal.wait_tables import wait
from feedback.errors import ExitCode
from feedback.sql.errors import DatabaseUnavailable
from onceward.servers.ports import HOST
from producer_client import outbox
from tests.consumer.journal.conftest import Database, OpenJournal
from tests.consumer.journal.samples import claim, kinds, new_id
from tests.rounds import in_time


def test_the_first_migration_gives_an_id_that_the_next_ones_keep(journal_url: str) -> None:
    first, second = migrate(journal_url), migrate(journal_url)
    assert (first.found, second.found) == (None, SCHEMA_VERSION)
    assert first.journal_id == second.journal_id
    assert len(bytes.fromhex(first.journal_id)) == 16


def test_a_journal_knows_its_id_and_its_server(database: Database, journal: Journal) -> None:
    (row,) = database.query("SELECT value FROM onceward_meta WHERE name = 'journal_id'")
    assert journal.journal_id() == row["value"]
    assert journal.ping().split()[0] in ("SQLite", "PostgreSQL")
    journal.require_current()


def test_two_journals_have_two_ids(tmp_path: Path) -> None:
    one, two = (migrate(f"sqlite:///{tmp_path / name}").journal_id for name in ("one", "two"))
    assert one != two


def test_workers_that_migrate_at_once_wait_for_each_other(journal_url: str) -> None:
    program = "import sys; from consumer.journal import migrate; print(migrate(sys.argv[1]))"
    command = [sys.executable, "-c", program, journal_url]
    workers = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    answers = [worker.communicate(timeout=60) for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, answers
    ids = {answer.split("journal_id=")[1] for answer, _ in answers}
    assert len(ids) == 1
    assert sum("found=None" in answer for answer, _ in answers) == 1


def test_the_migrated_tables_are_those_that_the_statements_expect(database: Database) -> None:
    with database.engine.connect() as connection:
        # Each of the two databases has the indexes of open requests on another table.
        elsewhere = {"onceward_open", "onceward_open_look"}
        if connection.dialect.name == "postgresql":
            elsewhere = {f"onceward_request_{name}" for name in PARTIAL_INDEXES}

        def is_expected(_: object, name: str | None, *rest: object) -> bool:
            return name not in elsewhere

        options: dict[str, object] = {
            "version_table": "onceward_alembic_version",
            "compare_type": True,
            "include_object": is_expected,
        }
        context = MigrationContext.configure(connection, opts=options)
        assert compare_metadata(context, wait.metadata) == []


def test_a_users_own_alembic_version_is_left_alone(journal_url: str) -> None:
    engine = create_engine(journal_url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE alembic_version (version_num VARCHAR(32))")
        connection.exec_driver_sql("INSERT INTO alembic_version VALUES ('mine')")
    migrate(journal_url)
    with engine.connect() as connection:
        found = connection.exec_driver_sql("SELECT version_num FROM alembic_version").all()
    assert found == [("mine",)]


def test_a_journal_without_tables_says_what_to_do(journal_url: str, group: str) -> None:
    journal = Journal(journal_url, group=group, worker_id="me")
    calls = (
        journal.require_current,
        journal.journal_id,
        lambda: journal.apply(Work(claims=[claim(new_id())])),
    )
    for call in calls:
        with pytest.raises(JournalVersionError, match="run `onceward-worker migrate`") as error:
            call()
        assert error.value.exit_code is ExitCode.USAGE
    migrate(journal_url)
    journal.require_current()
    assert kinds(journal.apply(Work(claims=[claim(new_id())]))) == ["RUN"]
    journal.close()


@pytest.mark.parametrize("migrate_one", [migrate, outbox.migrate], ids=["journal", "outbox"])
def test_a_search_path_without_a_schema_is_named_and_no_migration_advised(
    postgres_url: str, migrate_one: Callable[[str], object], group: str
) -> None:
    asks = {"options": "-csearch_path=nowhere"}
    url = make_url(postgres_url).update_query_dict(asks).render_as_string(hide_password=False)
    journal = Journal(url, group=group, worker_id="me")
    calls: tuple[Callable[[], object], ...] = (lambda: migrate_one(url), journal.require_current)
    for call in calls:
        with pytest.raises(DatabaseUnavailable, match="search_path = nowhere is there") as error:
            call()
        assert "later" not in str(error.value)
    with create_engine(postgres_url, poolclass=NullPool).begin() as connection:
        connection.exec_driver_sql("CREATE SCHEMA nowhere")
    migrate_one(url)
    migrate(url)
    journal.require_current()
    journal.close()


@pytest.mark.parametrize(("version", "advice"), [(99, "install the newer"), (0, "migrate")])
def test_a_journal_of_another_version_is_refused(
    open_journal: OpenJournal, database: Database, version: int, advice: str
) -> None:
    database.change(
        "UPDATE onceward_meta SET value = :version WHERE name = 'schema_version'",
        version=str(version),
    )
    with pytest.raises(JournalVersionError, match=advice):
        open_journal().require_current()


def test_a_newer_journal_is_not_migrated(database: Database) -> None:
    database.change("UPDATE onceward_meta SET value = '99' WHERE name = 'schema_version'")
    with pytest.raises(JournalVersionError, match="newer"):
        migrate(database.url)
    rows = database.query("SELECT value FROM onceward_meta WHERE name = 'schema_version'")
    assert rows == [{"value": "99"}]


def test_a_folder_with_a_percent_sign_in_its_name_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "100%(here)s"
    folder.mkdir()
    assert migrate(f"sqlite:///{folder / 'journal.db'}").version == SCHEMA_VERSION


@pytest.mark.parametrize("migrate_one", [migrate, outbox.migrate], ids=["journal", "outbox"])
def test_a_migration_leaves_a_silent_database_soon(migrate_one: Callable[[str], object]) -> None:
    with socket.create_server((HOST, 0)) as silent:
        port = silent.getsockname()[1]

        def is_left() -> None:
            with pytest.raises(DatabaseUnavailable, match="is not available"):
                migrate_one(f"postgresql+psycopg://{HOST}:{port}/money")

        in_time(is_left, limit_s=10)
