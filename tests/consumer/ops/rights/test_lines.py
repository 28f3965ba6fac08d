"""The commands that grant rights are read by a shell, redis-cli and psql as they are meant."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import psycopg
import pytest
import redis

from feedback.errors import SettingsError
from feedback.rights.lines import kafka_line, redis_line, sql_line
from feedback.rights.needed import KafkaRight, RedisRight, Resource, SqlRight
from tests.stack.postgres import dsn

HOSTILE = "a'b\"c;$(touch x)`d`\\e -- \n*"
TOPIC = KafkaRight(Resource.TOPIC, "pay.g.", frozenset({"Read", "Write"}), is_prefix=True)


def test_an_acl_of_all_users_is_refused() -> None:
    right = KafkaRight(Resource.TOPIC, "pay", frozenset({"Read"}))
    for user in ("*", ""):
        with pytest.raises(SettingsError, match="all users"):
            kafka_line(right, user=user, brokers="kafka:9092")


def test_a_shell_reads_a_hostile_user_as_one_word(tmp_path: Path) -> None:
    program = tmp_path / "kafka-acls"
    program.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    program.chmod(0o700)
    line = kafka_line(TOPIC, user=HOSTILE, brokers="a:1,b:2", config="admin.properties")
    path = f"{tmp_path}:/usr/bin:/bin"
    ran = subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, check=True, env={"PATH": path}
    )
    read = ran.stdout.split("\0")[:-1]
    assert read == shlex.split(line)[1:]
    assert read[read.index("--allow-principal") + 1] == f"User:{HOSTILE}"
    assert read[-4:] == ["--topic", "pay.g.", "--resource-pattern-type", "prefixed"]


@pytest.mark.parametrize("name", ["*", "", "a b", "a\n--remove", "ä", "x" * 250])
def test_a_topic_that_kafka_cannot_have_is_refused_and_never_a_wildcard(name: str) -> None:
    right = KafkaRight(Resource.TOPIC, name, frozenset({"Read"}))
    with pytest.raises(SettingsError, match="correct the name"):
        kafka_line(right, user="me", brokers="b:1")


@pytest.mark.parametrize("user", ["bank", 'quo"te', "a'b", "ünï", "a;b\\c"])
def test_redis_cli_grants_to_a_user_of_any_name(redis_url: str, user: str) -> None:
    right = RedisRight(frozenset({"get", "script|load"}), frozenset(), ("onceward:g:*",), ())
    with redis.Redis.from_url(redis_url, decode_responses=True) as client:
        try:
            line = redis_line(right, user=user)
            said = subprocess.run(
                ["redis-cli", "-u", redis_url], input=line, capture_output=True, text=True
            )
            assert said.stdout == "OK\n"
            made = client.acl_getuser(user)
            assert made is not None
            assert set(made["commands"]) == {"+get", "+script|load"}
            assert made["categories"] == ["-@all"]
            assert made["keys"] == ["~onceward:g:*"]
        finally:
            client.acl_deluser(user)


@pytest.mark.parametrize("user", ["", "two words", "on\nACL SETUSER default +@all"])
def test_a_user_that_redis_cannot_have_is_refused(user: str) -> None:
    right = RedisRight(frozenset({"get"}), frozenset(), (), ())
    with pytest.raises(SettingsError, match="without spaces"):
        redis_line(right, user=user)


def test_postgresql_grants_to_a_user_and_on_a_database_of_any_name(postgres_url: str) -> None:
    user = HOSTILE[:60]
    with psycopg.connect(dsn(postgres_url)) as session:
        name = session.info.dbname
        quoted = psycopg.sql.Identifier(user)
        session.execute(psycopg.sql.SQL("CREATE ROLE {}").format(quoted))
        session.execute("CREATE TABLE onceward_request (id int)")
        for right in (
            SqlRight("DATABASE", "", ("CONNECT",)),
            SqlRight("SCHEMA", "", ("USAGE",)),
            SqlRight("TABLE", "onceward_request", ("SELECT", "UPDATE")),
        ):
            session.execute(sql_line(right, user=user, database=name, schema="public").encode())
        may = session.execute(
            "SELECT has_table_privilege(%s, 'onceward_request', 'UPDATE'), "
            "has_table_privilege(%s, 'onceward_request', 'DELETE')",
            (user, user),
        ).fetchone()
        assert may == (True, False)
        session.rollback()


def test_a_name_that_postgresql_cannot_have_is_refused() -> None:
    right = SqlRight("SCHEMA", "", ("USAGE",))
    with pytest.raises(SettingsError, match="PostgreSQL has no name"):
        sql_line(right, user="a\0b", database="d", schema="public")
