"""What keeps a worker from starting: each ends it with a sentence and an exit code."""

from pathlib import Path

import pytest

from tests.consumer.conftest import MakeStage
from tests.consumer.running import RunningWorker, command
from tests.kit.databases import migrated


def ended(worker: RunningWorker) -> tuple[int, str]:
    """Return the exit code of a worker that does not stay, and its error."""
    code = worker.wait()
    return code, worker.stderr.splitlines()[-2]


@pytest.mark.parametrize("module", ["tests.consumer.no_such_module", "json"])
def test_a_handler_path_without_handlers_ends_the_worker(
    make_stage: MakeStage, module: str
) -> None:
    worker = make_stage().launch_with(worker={"handlers": [module]})
    code, told = ended(worker)
    assert code == 2
    assert told.startswith("error: ")
    assert module in told


def test_a_topic_that_does_not_exist_ends_the_worker(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.topics["work"] = "no-such-topic"
    worker = stage.launch_with()
    code, told = ended(worker)
    assert code == 3
    assert told.startswith("error: Kafka at ")
    assert "has no topic no-such-topic: create it" in told
    assert worker.events("worker.started") == []


def test_wrong_settings_are_named_all_at_once(tmp_path: Path) -> None:
    config = tmp_path / "wrong.toml"
    config.write_text(
        "[kafka]\nbootstrap_server = 'x'\n"
        "[worker]\nprocesses = 'many'\nbuffer_limit = 0\n"
        "[jornal]\nurl = 'sqlite:///x'\n"
        "[journal]\nurl = 'mysql://x'\n"
    )
    ran = command("run", "--config", str(config), ONCEWARD_REDDIS__URL="redis://x")
    assert (ran.returncode, ran.stdout) == (2, "")
    for name in (
        "[kafka] bootstrap_server: there is no such setting",
        "[worker] processes:",
        "[worker] buffer_limit:",
        "[jornal]",
        "[journal] url: must begin with sqlite:/// or postgresql+psycopg://",
        "ONCEWARD_REDDIS__URL: there is no section [reddis]",
    ):
        assert name in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_worker_without_handlers_says_what_is_missing(tmp_path: Path) -> None:
    config = tmp_path / "empty.toml"
    config.write_text("")
    ran = command("run", "--config", str(config))
    assert ran.returncode == 2
    assert "[worker] handlers: name the modules" in ran.stderr


def test_a_settings_file_that_is_not_there_or_no_toml_is_one_sentence(tmp_path: Path) -> None:
    absent = command("run", "--config", str(tmp_path / "absent.toml"))
    assert absent.returncode == 2
    assert "No such file" in absent.stderr
    broken = tmp_path / "broken.toml"
    broken.write_text("[kafka\n")
    ran = command("run", "--config", str(broken))
    assert ran.returncode == 2
    assert "is not TOML" in ran.stderr


def test_a_journal_of_a_newer_version_ends_the_worker(make_stage: MakeStage) -> None:
    stage = make_stage()
    stage.execute("UPDATE onceward_meta SET value = '99' WHERE name = 'schema_version'")
    code, told = ended(stage.launch_with())
    assert code == 2
    assert "version 99, newer than this program's" in told


def test_a_journal_without_tables_ends_the_worker(make_stage: MakeStage, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/empty.db"
    code, told = ended(make_stage().launch_with(journal={"url": url}))
    assert code == 2
    assert "no tables yet: run `onceward-worker migrate`" in told


def test_a_second_journal_in_a_group_ends_the_worker_before_it_reads(
    make_stage: MakeStage, tmp_path: Path
) -> None:
    stage = make_stage()
    stage.start()
    url = f"sqlite:///{tmp_path}/second.db"
    migrated(url)
    code, told = ended(stage.launch_with(journal={"url": url}))
    assert code == 2
    assert "two journals would run requests twice" in told


def test_a_worker_whose_children_cannot_start_backs_off_and_ends_with_the_reason(
    make_stage: MakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEST_NO_CHILDREN", "1")
    worker = make_stage().launch_with()
    code, told = ended(worker)
    assert code == 3
    assert "no process can be started for handlers" in told
    assert "this library is on no child's path" in told
    assert len(worker.events("child.failed")) < 30
