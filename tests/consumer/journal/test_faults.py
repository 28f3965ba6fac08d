"""Databases that are away, busy or wrong."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy.exc import DBAPIError

from consumer.journal import (
    EffectMark,
    Journal,
    JournalUnavailable,
    Leases,
    VerdictKind,
    Work,
)
from consumer.journal.errors import Contended, DataRefused, JournalVersionError, translate
from feedback.errors import ExitCode, NotAvailable, SettingsError
from onceward.servers.ports import free_port
from tests.consumer.journal.samples import claim, finish, kinds, new_id
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.stack.postgres import dsn

SECRET = "4111-1111-1111-1111"


def end_connections(url: str) -> None:
    """End every connection of Onceward to this database and wait until they are gone."""
    with psycopg.connect(dsn(url), autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE application_name = 'onceward' AND datname = current_database()"
        )


def test_a_lost_connection_is_told_and_the_next_call_opens_another(
    postgres_url: str, group: str
) -> None:
    migrated(postgres_url)
    journal = Journal(postgres_url, group=group, worker_id="me")
    leases = Leases(postgres_url, group=group, worker_id="me")
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    leases.register(60)
    end_connections(postgres_url)
    with pytest.raises(JournalUnavailable):
        journal.apply(Work(finishes=[finish(name)], claims=[claim(new_id())]))
    with pytest.raises(JournalUnavailable):
        leases.renew(60)
    assert leases.renew(60) is not None
    applied = journal.apply(Work(finishes=[finish(name)]))
    assert applied.finished[name, 1].kind == "WRITTEN"
    journal.close()
    leases.close()


def test_a_server_that_is_not_there_is_told_without_the_password(group: str) -> None:
    url = f"postgresql+psycopg://me:{SECRET}@127.0.0.1:{free_port()}/none"
    with pytest.raises(JournalUnavailable, match="repeat the same call") as error:
        Journal(url, group=group, worker_id="me").ping()
    assert SECRET not in str(error.value) and "\n" not in str(error.value)
    assert error.value.exit_code is ExitCode.NOT_AVAILABLE


def test_a_statement_that_waits_too_long_for_a_lock_is_an_outage(
    postgres_url: str, group: str
) -> None:
    migrated(postgres_url)
    journal = Journal(postgres_url, group=group, worker_id="me", statement_timeout_s=1.0)
    name = new_id()
    with closing(Journal(postgres_url, group=group, worker_id="me")) as patient:
        patient.apply(Work(claims=[claim(name)]))
    with psycopg.connect(dsn(postgres_url)) as other:
        other.execute("SELECT * FROM onceward_request FOR UPDATE")
        with pytest.raises(JournalUnavailable, match="57014"):
            journal.apply(Work(effects=[EffectMark(name, 1)]))

    def may_enter() -> bool:
        # A machine that stands still for a second is an outage as well.
        with suppress(JournalUnavailable):
            return journal.apply(Work(effects=[EffectMark(name, 1)])).effects == {(name, 1)}
        return False

    eventually(may_enter)
    journal.close()


def test_a_file_that_another_program_writes_for_too_long_is_an_outage(
    sqlite_url: str, group: str, tmp_path: Path
) -> None:
    migrated(sqlite_url)
    journal = Journal(sqlite_url, group=group, worker_id="me", statement_timeout_s=0.2)
    other = sqlite3.connect(sqlite_url.removeprefix("sqlite:///"), isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(JournalUnavailable, match="locked"):
        journal.apply(Work(claims=[claim(new_id())]))
    assert journal.unpublished(10, 0) == []
    other.execute("ROLLBACK")
    other.close()
    assert kinds(journal.apply(Work(claims=[claim(new_id())]))) == [VerdictKind.RUN]
    journal.close()


def test_a_disk_that_is_full_is_an_outage_until_there_is_room(sqlite_url: str, group: str) -> None:
    migrated(sqlite_url)
    journal = Journal(sqlite_url, group=group, worker_id="me")
    name = new_id()
    journal.apply(Work(claims=[claim(name)]))
    with journal._session.transaction() as connection:
        (pages,) = connection.exec_driver_sql("PRAGMA page_count").one()
    limited = f"PRAGMA max_page_count={pages + 2}"
    with journal._session.transaction(read_only=True) as connection:
        connection.exec_driver_sql(limited)
    large = finish(name, result='"' + "x" * 100_000 + '"')
    with pytest.raises(JournalUnavailable, match="full"):
        journal.apply(Work(finishes=[large]))
    assert journal.apply(Work(finishes=[large])).finished[name, 1].kind == "WRITTEN"
    journal.close()


def test_a_folder_that_is_not_there_and_a_file_that_is_no_database_are_told(
    tmp_path: Path, group: str
) -> None:
    text = tmp_path / "text.db"
    text.write_text("this is not a database, whatever its name says " * 100)
    for path in (tmp_path / "absent" / "journal.db", text):
        with pytest.raises(JournalUnavailable):
            Journal(f"sqlite:///{path}", group=group, worker_id="me").ping()


@pytest.mark.parametrize(
    "url",
    [f"nonsense {SECRET}", f"mysql://me:{SECRET}@db/x", f"postgresql+asyncpg://{SECRET}@db/x"],
)
def test_a_url_of_another_kind_is_a_settings_error_that_does_not_show_it(url: str) -> None:
    with pytest.raises(SettingsError, match="correct it") as error:
        Journal(url, group="g", worker_id="me")
    assert SECRET not in str(error.value)


def test_a_driver_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(NotAvailable, match=r"pip install 'onceward\[postgres\]'"):
        Journal("postgresql+psycopg://me@db/x", group="g", worker_id="me")


def of_postgres(kind: type[psycopg.Error]) -> object:
    error = kind(f"secret {SECRET}")
    return translate(DBAPIError("", {}, error))


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (psycopg.errors.NumericValueOutOfRange, DataRefused),
        (psycopg.errors.UntranslatableCharacter, DataRefused),
        (psycopg.errors.CheckViolation, DataRefused),
        (psycopg.errors.ProgramLimitExceeded, DataRefused),
        (psycopg.errors.DeadlockDetected, Contended),
        (psycopg.errors.SerializationFailure, Contended),
        (psycopg.errors.UndefinedTable, JournalVersionError),
        (psycopg.errors.AdminShutdown, JournalUnavailable),
        (psycopg.errors.DiskFull, JournalUnavailable),
        (psycopg.errors.TooManyConnections, JournalUnavailable),
        (psycopg.errors.ReadOnlySqlTransaction, JournalUnavailable),
        (psycopg.errors.InsufficientPrivilege, JournalUnavailable),
        (psycopg.errors.SyntaxError, type(None)),
    ],
)
def test_what_the_server_says_is_sorted_by_what_can_be_done(
    kind: type[psycopg.Error], expected: type[Exception]
) -> None:
    translated = of_postgres(kind)
    assert type(translated) is expected
    assert SECRET not in str(translated)
