"""`onceward-worker check` names all that is wrong, and no password; `--help` shows examples."""

import json
import subprocess
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from consumer.journal import Journal, Work, migrate
from consumer.journal.tables import SCHEMA_VERSION
from consumer.ops.commands import cli
from onceward.servers.ports import free_port
from tests.consumer.conftest import MakeStage
from tests.consumer.journal.samples import claim, new_id
from tests.consumer.running import command
from tests.consumer.stage import Stage
from tests.stack.pgbouncer import pooler
from tests.stack.postgres import Postgres, dsn
from tests.stack.replication import replicated
from tests.stack.restartable import restartable

PASSWORD = "hush-hush"


@pytest.fixture
def stage(make_stage: MakeStage) -> Stage:
    """Return a stage without a worker."""
    return make_stage()


def run_check(stage: Stage, **changes: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run `check --json` with changed settings."""
    config = str(stage.config(**changes))
    ran = command("check", "--json", "--config", config, **stage.variables())
    assert "Traceback" not in ran.stderr
    assert PASSWORD not in ran.stdout + ran.stderr
    return ran


def wrong(ran: subprocess.CompletedProcess[str]) -> dict[str, str]:
    """Return what was found wrong: the detail of each finding by its name."""
    return {one["what"]: one["detail"] for one in findings(ran) if not one["ok"]}


def findings(ran: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    """Return all that was looked at."""
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_all_is_well_and_each_server_is_named_with_its_version(stage: Stage) -> None:
    ran = run_check(stage)
    found = {one["what"]: one["detail"] for one in map(json.loads, ran.stdout.splitlines())}
    assert ran.returncode == 0
    assert list(found) == ["settings", "handlers", "kafka", "redis", "journal", "group", "rights"]
    assert "tests.consumer.worker_handlers:work" in found["handlers"]
    assert "protocol of 4." in found["kafka"]
    assert "version 7." in found["redis"] or "version 8." in found["redis"]
    assert "SQLite 3." in found["journal"]
    assert "no worker of it has started yet" in found["group"]


def test_a_group_without_a_worker_is_told_which_groups_the_journal_knows(stage: Stage) -> None:
    for group in ("bookings", "seats"):
        with closing(Journal(stage.journal_url, group=group, worker_id="me")) as journal:
            journal.apply(Work(claims=[claim(new_id()), claim(new_id())]))
    ran = run_check(stage)
    said = {one["what"]: one["detail"] for one in findings(ran)}["group"]
    assert ran.returncode == 0
    assert "the journal has requests of bookings, seats: if this is a new name" in said


def test_a_journal_that_others_may_read_is_named_with_the_command_that_mends_it(
    stage: Stage, tmp_path: Path
) -> None:
    path = tmp_path / "open.db"
    migrate(url := f"sqlite:///{path}")
    assert "files" not in wrong(run_check(stage, journal={"url": url}))
    path.chmod(0o644)
    ran = run_check(stage, journal={"url": url})
    assert ran.returncode == 1
    assert wrong(ran)["files"] == f"others may read requests: chmod 600 {path}"


def test_without_json_it_prints_a_line_for_a_person_each(stage: Stage) -> None:
    ran = command("check", "--config", str(stage.config()), **stage.variables())
    assert ran.returncode == 0
    assert [line.split()[:2] for line in ran.stdout.splitlines()][:3] == [
        ["ok", "settings"],
        ["ok", "handlers"],
        ["ok", "kafka"],
    ]


def test_every_server_that_does_not_answer_is_named_in_one_run(stage: Stage) -> None:
    port = free_port()
    ran = run_check(
        stage,
        kafka={"bootstrap_servers": f"127.0.0.1:{port}"},
        redis={"url": f"redis://me:{PASSWORD}@127.0.0.1:{port}/0"},
        journal={"url": f"postgresql+psycopg://me:{PASSWORD}@127.0.0.1:{port}/payments"},
    )
    found = wrong(ran)
    assert ran.returncode == 3
    assert list(found) == ["kafka", "redis", "journal"]
    assert all(f"127.0.0.1:{port}" in detail for detail in found.values())


def test_a_server_that_refuses_the_password_is_named_without_it(stage: Stage) -> None:
    address = stage.client.settings.redis.url.removeprefix("redis://")
    ran = run_check(stage, redis={"url": f"redis://me:{PASSWORD}@{address}"})
    assert ran.returncode == 3
    assert wrong(ran) == {
        "redis": f"redis://me:***@{address}: Redis: the server refuses user or password: "
        "correct user and password in [redis] url "
        "(invalid username-password pair or user is disabled)"
    }


def test_a_password_in_a_journals_query_is_not_shown(stage: Stage) -> None:
    url = f"postgresql+psycopg://127.0.0.1:{free_port()}/payments?password={PASSWORD}"
    ran = run_check(stage, journal={"url": url})
    assert ran.returncode == 3
    assert "?password=***: the journal is not available" in wrong(ran)["journal"]


def test_missing_tables_and_a_missing_topic_are_named(stage: Stage, tmp_path: Path) -> None:
    stage.topics["work"] = "no-such-topic"
    ran = run_check(stage, journal={"url": f"sqlite:///{tmp_path}/empty.db"})
    found = wrong(ran)
    assert ran.returncode == 3
    assert list(found) == ["kafka", "journal"]
    assert "has no topic no-such-topic" in found["kafka"]
    assert "no tables yet: run `onceward-worker migrate`" in found["journal"]


def test_a_dead_letter_topic_that_has_to_be_there_is_named(stage: Stage) -> None:
    expected = f"has no topic {stage.topics['work']}.{stage.group}.dlq"
    assert expected in wrong(run_check(stage, worker={"create_topics": False}))["kafka"]
    none = {"create_topics": False, "dead_letters": "none"}
    assert run_check(stage, worker=none).returncode == 0


def test_settings_that_disagree_are_all_named(stage: Stage) -> None:
    ran = run_check(
        stage,
        journal={"wait_s": 1},
        client={"resend_after_s": 1},
        redis={"status_ttl_s": 60, "outcome_ttl_s": {"SUCCEEDED": 50, "FAILED": 99_999}},
    )
    told = wrong(ran)["settings"]
    assert ran.returncode == 2
    for name in ("wait_s (1)", "lease_s (2)", "resend_after_s (1)", "status_ttl_s (60)"):
        assert name in told
    assert "outcome_ttl_s.SUCCEEDED (50)" in told
    assert "FAILED" not in told


def test_handlers_that_do_not_import_are_named_beside_what_is_well(stage: Stage) -> None:
    ran = run_check(stage, worker={"handlers": ["payments.handlers"]})
    assert ran.returncode == 2
    assert "'payments.handlers': ModuleNotFoundError" in wrong(ran)["handlers"]
    assert list(wrong(ran)) == ["handlers"]


def test_another_journal_than_the_groups_is_named_and_a_check_claims_none(
    stage: Stage, tmp_path: Path
) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    migrate(other)
    assert run_check(stage, journal={"url": other}).returncode == 0
    stage.start()
    assert run_check(stage).returncode == 0
    ran = run_check(stage, journal={"url": other})
    assert ran.returncode == 2
    assert "two journals would run requests twice" in wrong(ran)["group"]


@pytest.mark.parametrize("name", ["run", "check", "migrate", "prune"])
def test_help_says_what_each_command_does_and_shows_an_example(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli([name, "--help"])
    told = capsys.readouterr().out
    assert ended.value.code == 0
    assert "Usage:" in told
    assert f"onceward-worker {name}" in told.split("Example:")[1]


def test_the_module_lists_its_commands() -> None:
    ran = command("--help")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert all(name in ran.stdout for name in ("run", "check", "migrate", "prune"))


@pytest.mark.parametrize(
    "arguments",
    [["fly"], ["run", "--fast"], ["check", "--config"], ["run", "--log-level", "loud"]],
)
def test_an_unknown_command_or_option_is_a_usage_error(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli(arguments)
    assert ended.value.code == 2


def test_migrate_and_prune_work_from_the_command_line(stage: Stage, tmp_path: Path) -> None:
    config = str(stage.config(journal={"url": f"sqlite:///{tmp_path}/new.db"}))
    for _ in range(2):
        ran = command("migrate", "--config", config)
        assert (ran.returncode, ran.stdout) == (0, f"the journal has version {SCHEMA_VERSION}\n")
    ran = command("prune", "--json", "--config", config)
    assert (ran.returncode, json.loads(ran.stdout)) == (0, {"requests": 0, "runs": 0})


def test_what_the_promises_rest_on_in_postgresql_is_named(stage: Stage) -> None:
    with replicated() as pair:
        migrate(pair.url())
        with psycopg.connect(dsn(pair.url()), autocommit=True) as admin:
            admin.execute("ALTER DATABASE postgres SET synchronous_commit TO off")
            admin.execute(
                "ALTER DATABASE postgres SET default_transaction_isolation TO serializable"
            )
        ran = run_check(stage, journal={"url": pair.url()})
        (said,) = [one["detail"] for one in findings(ran) if one["what"] == "database"]
        assert "isolation serializable (transactions of ours ask for read committed)" in said
        assert "synchronous_commit off (transactions of ours ask for on)" in said
        assert "standby standby is ASYNCHRONOUS: do not fail over to it" in said
        assert "database" not in wrong(ran)


def test_a_database_that_does_not_write_to_its_disk_is_wrong(stage: Stage) -> None:
    careless = {"fsync": "off", "full_page_writes": "off", "max_connections": "8"}
    with restartable(lambda: Postgres(settings=careless)) as server, pooler(server.address) as url:
        migrate(server.address)
        ran = run_check(stage, journal={"url": url})
        assert ran.returncode == 1
        assert "fsync is off" in wrong(ran)["database"]
        assert "full_page_writes is off" in wrong(ran)["database"]
        assert "behind a pooler" in wrong(ran)["database"]
        assert (
            "one worker takes up to 6 connections and max_connections leaves 5"
            in (wrong(ran)["database"])
        )
