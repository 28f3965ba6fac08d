"""The journal's URL in JDBC's words, and the text of the queries."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from feedback.errors import NotAvailable, SettingsError
from spark_audit.stage.jdbc import Database, literal
from spark_audit.stage.journal_sql import (
    IDS_AT_ONCE,
    claim_predicates,
    id_predicates,
    run_predicates,
)

PG = "postgresql+psycopg://"


def test_user_and_password_are_properties_and_never_in_the_url() -> None:
    found = Database.of(f"{PG}me:p%40ss@db:6432/onceward")
    assert found.url == "jdbc:postgresql://db:6432/onceward"
    assert (found.properties["user"], found.properties["password"]) == ("me", "p@ss")
    assert "p@ss" not in repr(found)


def test_the_parameters_of_tls_pass_through() -> None:
    found = Database.of(f"{PG}db/onceward?sslmode=verify-full&sslrootcert=/ca.pem&sslkey=/k")
    assert {name: found.properties[name] for name in ("sslmode", "sslrootcert", "sslkey")} == {
        "sslmode": "verify-full",
        "sslrootcert": "/ca.pem",
        "sslkey": "/k",
    }


def test_waits_of_a_worker_are_left_out_and_unknown_parameters_are_named() -> None:
    waits = "connect_timeout=3&keepalives_idle=5&tcp_user_timeout=9"
    assert "connect_timeout" not in Database.of(f"{PG}db/x?{waits}").properties
    with pytest.raises(SettingsError, match="channel_binding"):
        Database.of(f"{PG}db/x?channel_binding=require")


def test_several_hosts_and_addresses_of_ipv6_are_kept() -> None:
    assert Database.of(f"{PG}/x?host=a:1&host=b:2").url == "jdbc:postgresql://a:1,b:2/x"
    assert Database.of(f"{PG}[::1]:5432/x").url == "jdbc:postgresql://[::1]:5432/x"


@pytest.mark.parametrize("url", [f"{PG}/x", f"{PG}/x?host=/var/run/postgresql"])
def test_a_socket_of_unix_is_refused_since_java_cannot_reach_it(url: str) -> None:
    with pytest.raises(SettingsError, match="TCP"):
        Database.of(url)


def test_a_file_of_sqlite_is_named_by_its_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "journal.db").touch()
    assert Database.of("sqlite:///journal.db").url == f"jdbc:sqlite:{tmp_path / 'journal.db'}"


def test_a_missing_file_of_sqlite_ends_with_3_and_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(NotAvailable, match="does not exist"):
        Database.of(f"sqlite:///{tmp_path / 'journal.db'}")
    assert not (tmp_path / "journal.db").exists()


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=ro"])
def test_a_journal_in_memory_is_refused(url: str) -> None:
    with pytest.raises(SettingsError):
        Database.of(url)


@pytest.mark.parametrize("text", ["it's", "''", "\\'; DROP TABLE x; --", "?", "{fn now()}", "ä\n"])
def test_a_literal_is_read_back_as_it_was(text: str) -> None:
    with sqlite3.connect(":memory:") as connection:
        assert connection.execute(f"SELECT {literal(text)}").fetchone() == (text,)
    connection.close()


def test_ids_are_asked_for_in_portions_each_once() -> None:
    ids = [f"id-{number}" for number in range(2 * IDS_AT_ONCE + 1)]
    predicates = id_predicates([*ids, *ids])
    assert len(predicates) == 3
    named = [name for one in predicates for name in one.split("'")[1::2]]
    assert sorted(named) == sorted(ids)


def test_slices_of_time_cover_it_once_and_what_was_never_claimed() -> None:
    claimed, ended = '"claimed_at"', '"finished_at"'
    assert claim_predicates(10, 17, 3) == [
        f"{claimed} >= 10 AND {claimed} < 13",
        f"{claimed} >= 13 AND {claimed} < 16",
        f"{claimed} >= 16 AND {claimed} < 17",
        f"{claimed} IS NULL AND ({ended} IS NULL OR {ended} >= 10)",
    ]
    assert len(claim_predicates(10, 10, 3)) == 1


def test_slices_of_runs_cover_them_once_and_those_that_come_meanwhile() -> None:
    assert run_predicates(5, 8, 2) == ['"run" >= 5 AND "run" < 7', '"run" >= 7']
    assert run_predicates(0, 0, 8) == ['"run" >= 0']
