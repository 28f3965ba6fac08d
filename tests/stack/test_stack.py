"""The local stack answers, and leaves nothing behind however it ends."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
import redis
from kafka import KafkaAdminClient
from sqlalchemy import create_engine, text

from onceward.servers.jars import classes_file
from onceward.servers.kafka import Broker
from onceward.servers.keeper import Keeper, ServerCommand
from onceward.servers.launch import launch
from onceward.servers.ports import HOST, free_port
from onceward.servers.redis import Redis
from tests.eventually import eventually
from tests.stack import Servers, Stack, StackError
from tests.stack.classes import write_classes
from tests.stack.installing import install
from tests.stack.servers import KAFKA, REDIS

ROOT = Path(__file__).parents[2]
STACK = (sys.executable, "-m", "tests.stack")
GIVEN = {
    "ONCEWARD_KAFKA__BOOTSTRAP_SERVERS": "kafka.example:9092",
    "ONCEWARD_REDIS__URL": "redis://redis.example/3",
    "ONCEWARD_JOURNAL__URL": "postgresql+psycopg://me@postgres.example/journal",
}
GONE_WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Up:
    """A stack of its own command, with every process and the folder it has."""

    command: subprocess.Popen[str]
    processes: tuple[psutil.Process, ...]
    folder: Path

    @property
    def keeper(self) -> psutil.Process:
        """The process that owns the servers: the command's only child."""
        (child,) = psutil.Process(self.command.pid).children()
        return child

    def names(self) -> set[str]:
        """Return the names of the processes that are still there: PostgreSQL's come and go."""
        found = set()
        for process in self.processes:
            with suppress(psutil.NoSuchProcess):
                found.add(process.name())
        return found

    def leaves_nothing(self) -> bool:
        """Wait until the processes have ended, then until the folder is gone."""
        self.command.wait(GONE_WITHIN_S)
        _, alive = psutil.wait_procs(self.processes, timeout=GONE_WITHIN_S)
        assert alive == []
        return eventually(lambda: not self.folder.exists(), timeout_s=GONE_WITHIN_S)


@contextmanager
def stack_command(*arguments: str) -> Iterator[Up]:
    """Run `python -m tests.stack` in a session of its own, as a terminal would."""
    environ = {name: value for name, value in os.environ.items() if name not in GIVEN}
    command = subprocess.Popen(
        (*STACK, *arguments),
        cwd=ROOT,
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert command.stdout is not None
        first = command.stdout.readline()
        assert command.stdout.readline().startswith("export ")
        processes = tuple(psutil.Process(command.pid).children(recursive=True))
        yield Up(command, processes, Path(first.removeprefix("# data and logs: ").strip()))
    finally:
        command.kill()
        command.communicate(timeout=GONE_WITHIN_S)


def run_stack(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (*STACK, *arguments),
        cwd=ROOT,
        env=os.environ | settings,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_kafka_has_a_new_topic_with_the_partitions_asked_for(
    servers: Servers, topic: Callable[..., str]
) -> None:
    name = topic(partitions=3)
    with KafkaAdminClient(bootstrap_servers=servers.kafka) as admin:
        (description,) = admin.describe_topics([name])
    assert len(description["partitions"]) == 3


def test_redis_answers(redis_url: str) -> None:
    with redis.Redis.from_url(redis_url) as client:
        assert client.ping()


def test_a_journal_takes_a_table(journal_url: str) -> None:
    engine = create_engine(journal_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE claim (id integer)"))
    engine.dispose()


def test_each_test_has_a_database_of_its_own(postgres_url: str) -> None:
    engine = create_engine(postgres_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE claim (id integer)"))
        durable = connection.execute(text("SHOW synchronous_commit")).scalar_one()
    engine.dispose()
    assert durable == "on"


def end_by_ctrl_c(up: Up) -> None:
    os.killpg(up.command.pid, signal.SIGINT)


def end_by_sigterm(up: Up) -> None:
    up.command.terminate()


def end_by_sigkill(up: Up) -> None:
    up.command.kill()


@pytest.mark.parametrize(
    "end",
    [
        end_by_ctrl_c,
        pytest.param(end_by_sigterm, marks=pytest.mark.long),
        pytest.param(end_by_sigkill, marks=pytest.mark.long),
    ],
)
def test_no_process_and_no_folder_stays_behind(end: Callable[[Up], None]) -> None:
    with stack_command("--only", "redis,postgres") as up:
        assert {"redis-server", "postgres"} <= up.names()
        assert up.folder.is_dir()
        end(up)
        assert up.leaves_nothing()


def test_servers_end_with_a_killed_keeper_and_the_folder_with_the_command() -> None:
    with stack_command("--only", "redis,postgres") as up:
        keeper = up.keeper
        servers = [process for process in up.processes if process != keeper]
        keeper.kill()
        assert psutil.wait_procs(servers, timeout=GONE_WITHIN_S)[1] == []
        end_by_sigterm(up)
        assert up.leaves_nothing()


def test_an_exception_in_the_block_ends_the_servers() -> None:
    stack = Stack.start(kafka=False, postgres=False, environ={})
    server = psutil.Process(stack.running["redis"].pid)
    with pytest.raises(ZeroDivisionError), stack:
        _ = 1 / 0
    assert not server.is_running()
    assert stack.folder is not None
    assert not stack.folder.exists()


def test_servers_of_the_environment_win() -> None:
    with Stack.start(environ=GIVEN) as servers:
        assert servers.settings() == GIVEN


def test_a_journal_in_sqlite_is_no_server() -> None:
    given = Servers.of_environment({"ONCEWARD_JOURNAL__URL": "sqlite:///journal.db"})
    assert given == Servers()


def test_only_what_is_not_given_is_started() -> None:
    given = {name: value for name, value in GIVEN.items() if "REDIS" not in name}
    stack = Stack.start(environ=given)
    with stack as servers:
        assert list(stack.running) == ["redis"]
        assert servers.kafka == "kafka.example:9092"
        assert servers.redis.startswith("redis://127.0.0.1:")


@pytest.mark.long
def test_a_broker_has_its_classes_and_features_from_the_files_beside_its_jars() -> None:
    install(["kafka"])
    write_classes()
    with Keeper() as keeper:
        running = launch(keeper, Broker)
        mapped = Path(f"/proc/{running.pid}/maps").read_text()
        with KafkaAdminClient(bootstrap_servers=running.address) as admin:
            features = admin.describe_features()
    assert str(classes_file()) in mapped
    assert features.pop("kraft.version")  # of a quorum whose members may change
    assert len(features) == 6
    for name, one in features.items():  # as when its folder is formatted
        assert one.get("finalized", (0, 0))[1] == one["supported"][1], name


@pytest.mark.long
def test_a_broker_starts_in_any_folder_and_language(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "a, b\\ü"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    # In Turkish a small i has a dot also as a capital.
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Duser.language=tr -Duser.country=TR")
    install(["kafka"])
    with Keeper() as keeper:
        running = launch(keeper, Broker)
        assert running.folder.is_relative_to(folder)
        assert [*(running.folder / "data").glob("__cluster_metadata-*")]


def test_a_port_taken_meanwhile_is_chosen_again() -> None:
    with Keeper() as keeper:
        first = launch(keeper, Redis)
        taken = int(first.address.split(":")[-1].split("/")[0])
        ports = iter([taken, free_port()])
        second = launch(keeper, lambda: Redis(port=next(ports)))
        assert second.address != first.address


def test_a_server_that_cannot_start_shows_the_end_of_its_log() -> None:
    with Keeper() as keeper:
        first = launch(keeper, Redis)
        taken = int(first.address.split(":")[-1].split("/")[0])
        with pytest.raises(StackError, match=r"(?s)redis exited with code 1.*already in use"):
            launch(keeper, lambda: Redis(port=taken))


def test_a_command_that_fails_shows_what_it_wrote(tmp_path: Path) -> None:
    argv = (sys.executable, "-c", "import sys; print('no such thing'); sys.exit(3)")
    with Keeper() as keeper:
        failing = ServerCommand(argv=argv, folder=tmp_path, log=tmp_path / "log")
        with pytest.raises(StackError, match=r"(?s)failed with code 3.*no such thing"):
            keeper.run(failing, timeout_s=20)


def test_a_missing_server_is_one_sentence_that_names_its_package(tmp_path: Path) -> None:
    ended = run_stack("--only", "redis", PATH=str(tmp_path), ONCEWARD_REDIS__URL="")
    assert ended.returncode == 1
    assert ended.stderr == (
        "not installed: redis-server; run `apt-get install redis-server` as root\n"
    )


@pytest.fixture
def listening() -> Iterator[dict[str, str]]:
    """Yield settings that name servers which accept connections."""
    with socket.create_server((HOST, 0)) as server:
        place = f"{HOST}:{server.getsockname()[1]}"
        yield Servers(place, f"redis://{place}/3", f"postgresql+psycopg://me@{place}/j").settings()


def test_the_command_gets_the_settings_and_its_exit_code_is_ours(
    listening: dict[str, str],
) -> None:
    code = "import os, sys; print(os.environ['ONCEWARD_REDIS__URL']); sys.exit(7)"
    ended = run_stack("--", sys.executable, "-c", code, **listening)
    assert (ended.stdout.strip(), ended.returncode) == (listening["ONCEWARD_REDIS__URL"], 7)


def test_a_server_that_is_given_and_has_ended_is_one_sentence_and_no_command_runs(
    listening: dict[str, str],
) -> None:
    place = f"{HOST}:{free_port()}"
    ended = run_stack("--", "echo", "ran", **listening | {REDIS: f"redis://me:secret@{place}/3"})
    assert (ended.stdout, ended.returncode) == ("", 1)
    assert ended.stderr.startswith(f"{REDIS}: {place}: [Errno 111]")
    assert ended.stderr.endswith(f"start that server, or unset {REDIS}\n")
    assert "secret" not in ended.stderr


def test_only_what_is_asked_for_has_to_be_up(listening: dict[str, str]) -> None:
    away = {KAFKA: f"{HOST}:{free_port()}"}
    asked = ("--only", "redis", "--", "echo", "ran")
    assert run_stack(*asked, **listening | away).stdout == "ran\n"


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    ended = run_stack("--install", "--only", "kafka", XDG_CACHE_HOME=str(tmp_path / "file"))
    assert ended.returncode == 1
    assert "set XDG_CACHE_HOME to one that user" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_signal_is_passed_on_to_the_command(listening: dict[str, str]) -> None:
    code = (
        "import signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})\n"
        "print('up', flush=True)\n"
        "sys.exit(signal.sigwait({signal.SIGTERM}) + 20)\n"
    )
    command = subprocess.Popen(
        (*STACK, "--", sys.executable, "-c", code),
        cwd=ROOT,
        env=os.environ | listening,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert command.stdout is not None
    assert command.stdout.readline() == "up\n"
    command.terminate()
    assert command.wait(GONE_WITHIN_S) == signal.SIGTERM + 20
    command.stdout.close()
