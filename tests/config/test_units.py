"""The systemd units: systemd's own checks accept them, and they keep to what the program does."""

import configparser
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

import consumer.dlq.commands
import consumer.ops.commands
import producer_client.commands.commands
import spark_audit.run.commands
from feedback.errors import ExitCode
from feedback.settings.settings import Settings
from onceward.servers.packages import program
from tests.kit.packages import install_missing

FOLDER = Path(__file__).parents[2] / "config" / "systemd"
UNITS = sorted(path.name for path in FOLDER.glob("*.service"))
WORKERS = ["onceward-worker.service", "onceward-worker@.service"]
TIMED = ["onceward-audit.service", "onceward-audit-prune.service", "onceward-prune.service"]
SERVICES = sorted({*UNITS} - {*TIMED})
# Tenths, as systemd counts: 0 is shut in, 100 is free to do everything.
EXPOSURE_LIMIT = 20
COMMAND_LIMIT_S = 60.0
COMMANDS: dict[str, click.Group] = {
    "onceward-worker": consumer.ops.commands.cli,
    "onceward-client": producer_client.commands.commands.cli,
    "onceward-audit": spark_audit.run.commands.cli,
    "onceward-dlq": consumer.dlq.commands.cli,
}


@pytest.fixture(scope="module")
def analyze() -> str:
    """Return the path of systemd-analyze, installed where it is missing."""
    install_missing(["systemd-analyze"])
    return program("systemd-analyze")


@pytest.fixture
def units(tmp_path: Path) -> Path:
    """Return a copy of the units whose programs exist on this machine."""
    copy = tmp_path / "systemd"
    shutil.copytree(FOLDER, copy)
    for path in copy.glob("*.service"):
        path.write_text(re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", path.read_text()))
    return copy


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, timeout=COMMAND_LIMIT_S)


def faults(analyze: str, folder: Path, unit: str) -> list[str]:
    """Return what systemd finds wrong in our files; other units' faults are not ours."""
    done = run(analyze, "verify", "--man=no", folder / unit)
    return [line for line in done.stderr.splitlines() if str(folder) in line or "onceward" in line]


def settings_of(unit: str) -> dict[str, str]:
    """Return the service's settings, those that all services share and its own last word."""
    parser = configparser.RawConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    shared = FOLDER / "onceward-.service.d" / "onceward.conf"
    parser.read([FOLDER / unit, shared, *(FOLDER / f"{unit}.d").glob("*.conf")])
    return dict(parser["Service"])


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_finds_no_fault_in_a_unit(analyze: str, units: Path, unit: str) -> None:
    assert faults(analyze, units, unit) == []


def test_a_fault_would_be_found_in_a_unit_and_in_what_they_share(analyze: str, units: Path) -> None:
    shared = units / "onceward-.service.d" / "onceward.conf"
    shared.write_text(shared.read_text() + "ProtectEverything=yes\n")
    unit = units / WORKERS[0]
    unit.write_text(unit.read_text().replace("WatchdogSec=60", "WatchdogSec=often"))
    found = " ".join(faults(analyze, units, WORKERS[0]))
    assert "ProtectEverything" in found
    assert "often" in found


@pytest.mark.parametrize("unit", UNITS)
def test_a_service_is_shut_in(analyze: str, units: Path, unit: str) -> None:
    done = run(analyze, "security", "--offline=yes", f"--threshold={EXPOSURE_LIMIT}", units / unit)
    assert done.returncode == 0, done.stdout


def test_without_what_they_share_a_service_would_not_be(analyze: str, units: Path) -> None:
    shutil.rmtree(units / "onceward-.service.d")
    unit = units / WORKERS[0]
    done = run(analyze, "security", "--offline=yes", f"--threshold={EXPOSURE_LIMIT}", unit)
    assert done.returncode != 0


@pytest.mark.parametrize("unit", UNITS)
def test_a_unit_starts_a_command_that_there_is(unit: str) -> None:
    path, command, *options = shlex.split(settings_of(unit)["ExecStart"])
    assert command in COMMANDS[Path(path).name].commands
    assert options[0] == "--config"
    assert options[1].startswith("/etc/onceward/")
    known = {
        name for one in COMMANDS[Path(path).name].commands[command].params for name in one.opts
    }
    assert {one for one in options if one.startswith("--")} <= known


@pytest.mark.parametrize("unit", SERVICES)
def test_wrong_settings_are_not_tried_again_and_all_else_is(unit: str) -> None:
    service = settings_of(unit)
    assert service["RestartPreventExitStatus"] == str(int(ExitCode.USAGE))
    assert service["Restart"] == "on-failure"
    # A drain that was cut leaves requests in doubt: somebody is to see the unit failed.
    assert "SuccessExitStatus" not in service


@pytest.mark.parametrize("unit", TIMED)
def test_the_audit_and_pruning_run_once_a_night_and_end(
    analyze: str, units: Path, unit: str
) -> None:
    service = settings_of(unit)
    assert (service["Type"], service["Restart"]) == ("oneshot", "no")
    timer = (FOLDER / unit).with_suffix(".timer")
    calendar = re.findall(r"(?m)^OnCalendar=(.+)$", timer.read_text())
    assert run(analyze, "calendar", *calendar).returncode == 0
    assert faults(analyze, units, timer.name) == []


@pytest.mark.parametrize("unit", WORKERS)
def test_systemd_is_more_patient_than_the_worker_itself(unit: str) -> None:
    service, worker = settings_of(unit), Settings().worker
    assert float(service["TimeoutStopSec"]) >= worker.drain_timeout_s + 30
    assert float(service["WatchdogSec"]) >= 2 * worker.stall_after_s
    assert float(service["TimeoutStartSec"]) >= 2 * worker.start_timeout_s


@pytest.mark.parametrize("unit", WORKERS)
def test_the_main_process_alone_is_asked_to_end_and_a_killed_child_ends_nobody(unit: str) -> None:
    service = settings_of(unit)
    wanted = {
        "Type": "notify",
        "NotifyAccess": "main",
        "KillMode": "mixed",
        "KillSignal": "SIGTERM",
        "OOMPolicy": "continue",
    }
    assert {name: service.get(name) for name in wanted} == wanted


def test_the_template_differs_from_the_worker_by_its_instance_alone() -> None:
    single, template = (settings_of(unit) for unit in WORKERS)
    named = {name: value.replace("%i", "worker") for name, value in template.items()}
    assert named == single
