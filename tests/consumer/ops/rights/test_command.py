"""`onceward-worker rights` prints commands for the users, topics and databases of the settings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from feedback.rights.needed import Role
from tests.consumer.running import command
from tests.kit.settings import Sections, write_settings

TOPICS = {"TEST_TOPICS": json.dumps({"flaky": "payments"})}


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return the file of settings that name a user everywhere."""
    sections: Sections = {
        "kafka": {
            "group": "bank",
            "bootstrap_servers": "kafka:9093",
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": "kafka-user",
            "sasl_plain_password": "hush",
        },
        "redis": {"url": "rediss://redis-user:hush@cache:6379/3"},
        "journal": {"url": "postgresql+psycopg://sql-user:hush@db/money"},
        "worker": {"handlers": ["tests.consumer.worker_handlers"]},
    }
    return str(write_settings(tmp_path, sections))


def printed(*arguments: str) -> list[str]:
    ran = command("rights", *arguments, **TOPICS)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "hush" not in ran.stdout
    return ran.stdout.splitlines()


def test_the_commands_of_one_role_name_the_users_of_its_settings(config: str) -> None:
    asked = ("--config", config, "--role", "worker")
    source, beside, group = printed(*asked, "--format", "acl")
    administered = "kafka-acls --bootstrap-server kafka:9093 --command-config admin.properties "
    assert source == (
        f"{administered}--add --allow-principal User:kafka-user --operation DescribeConfigs "
        "--operation Read --topic payments"
    )
    assert beside.endswith(
        "--operation Create --operation DescribeConfigs --operation Write "
        "--topic payments.bank. --resource-pattern-type prefixed"
    )
    assert group.endswith("--operation Read --group bank")
    (line,) = printed(*asked, "--format", "redis")
    assert line.startswith("ACL SETUSER redis-user ~onceward:bank:* &onceward:bank:* +")
    assert "+select" in line.split()
    connect, *_ = lines = printed(*asked, "--format", "sql")
    assert connect == 'GRANT CONNECT ON DATABASE "money" TO "sql-user";'
    assert 'GRANT USAGE ON SEQUENCE "public"."onceward_run_id_seq" TO "sql-user";' in lines


def test_the_tables_of_a_schema_are_granted_there(config: str) -> None:
    url = "postgresql+psycopg://db/money?options=-csearch_path%3Dteam_a"
    asked = ("rights", "--config", config, "--role", "worker", "--format", "sql")
    lines = command(*asked, ONCEWARD_JOURNAL__URL=url, **TOPICS).stdout.splitlines()
    assert any(line.startswith('GRANT USAGE ON SCHEMA "team_a"') for line in lines)
    assert not any("public" in line for line in lines)


def test_without_a_role_each_has_a_user_of_its_own(config: str) -> None:
    lines = printed("--config", config)
    for role in Role:
        assert any(f"onceward-{role}" in line for line in lines)
    assert not any("sql-user" in line for line in lines)


def test_a_user_can_be_named_and_all_roles_are_known(config: str) -> None:
    for role in Role:
        lines = printed("--config", config, "--role", role, "--user", "bank")
        assert all("bank" in line for line in lines if not line.startswith(("#", "--")))


def test_a_topic_that_would_mean_all_topics_is_refused(config: str) -> None:
    asked = ("--config", config, "--role", "client", "--format", "acl")
    ran = command("rights", *asked, **TOPICS, ONCEWARD_CLIENT__TOPIC="*")
    assert ran.returncode == 2
    assert "Kafka has no topic named '*'" in ran.stderr
