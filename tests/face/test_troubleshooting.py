"""Messages name entries of docs: Troubleshooting by symptom, and `onceward help` prints them."""

from __future__ import annotations

import importlib
import pkgutil
import re
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import onceward
from consumer.ops.check_result import CheckResult
from consumer.ops.commands import _as_text
from feedback.errors import ExitCode, NotSent, OncewardError, more
from onceward.commands import cli
from onceward.troubleshooting import entries
from tests.face.conftest import ROOT, Project

PRODUCT = ("consumer", "feedback", "onceward", "producer_client", "spark_audit")
RULES = ROOT / "config/prometheus/onceward-alerts.yml"
# Importing these runs them.
NOT_IMPORTED = ("__main__", ".migrations", "checkout")


def _errors() -> set[type[OncewardError]]:
    """Return each class of errors of the product."""
    for name in PRODUCT:
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not any(part in found.name for part in NOT_IMPORTED):
                importlib.import_module(found.name)
    return {one for one in _below(OncewardError) if one.__module__.partition(".")[0] in PRODUCT}


def _below(kind: type[OncewardError]) -> Iterator[type[OncewardError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _below(one)


def _public() -> set[str]:
    """Return the errors that a program imports; of some a handler alone is told."""
    found = {name: getattr(onceward, name) for name in onceward.__all__}
    return {
        name
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, Exception)
    }


def _lines_of_check() -> set[str]:
    files = sorted((ROOT / "consumer/ops").rglob("*.py"))
    source = "\n".join(path.read_text("utf-8") for path in files)
    lines = set(re.findall(r'(?:_finding|CheckResult)\(\s*"([a-z ]+)"', source))
    return lines | set(re.findall(r'\("([a-z ]+)", _look_at_', source))


def test_each_name_in_a_message_is_an_entry_and_no_entry_is_without_a_message() -> None:
    assert {"settings", "redis memory", "group", "rights"} <= _lines_of_check()
    named = {
        *(one.entry for one in _errors()),
        *(f"error-{name.lower()}" for name in _public()),
        *(one.entry for one in ExitCode),
        *(CheckResult(name, "").entry for name in _lines_of_check()),
        *re.findall(r"runbook: docs/how-to/troubleshooting.md#(\S+)", RULES.read_text("utf-8")),
    }
    # Nobody but a reader knows a symptom.
    assert {name for name in entries() if not name.startswith("symptom-")} == named


def test_a_class_of_its_own_has_an_entry_of_its_own() -> None:
    """What stands right below the base would else say that it is a fault of ours."""
    # Raised only as a class below it; caught by the registry that raises it.
    silent = {"WrongVersion", "Stopping"}
    base = {one.__name__ for one in _errors() if one.entry == OncewardError.entry}
    assert base == {"OncewardError", *silent}


def test_a_traceback_and_a_command_name_the_entry(tmp_path: Path) -> None:
    line = more("error-notsent")
    assert traceback.format_exception(NotSent("order-7", "away"))[-1] == f"{line}\n"
    told = CliRunner().invoke(cli, ["worker", "run", "--config", str(tmp_path / "none.toml")])
    assert told.stderr.splitlines()[1:] == [more("error-settingserror")]
    told = CliRunner().invoke(cli, ["worker", "rum"])
    assert told.stderr.splitlines()[-1] == more("exit-code-2")
    assert "onceward help exit-code-" in CliRunner().invoke(cli, ["worker", "--help"]).stdout


def test_a_wrong_line_of_check_names_its_entry_and_a_good_one_does_not() -> None:
    wrong = CheckResult("redis memory", "set noeviction", ExitCode.BAD_ANSWER)
    assert _as_text(wrong).endswith("set noeviction (more: onceward help check-redis-memory)")
    assert _as_text(CheckResult("kafka", "there")).endswith("there")


def test_help_prints_an_entry_without_links_and_lists_all() -> None:
    entry = CliRunner().invoke(cli, ["help", "exit-code-5"])
    assert entry.stdout.startswith("Exit code 5\n\nA worker was cut")
    assert "docs: effects" in entry.stdout and "](" not in "\n".join(entries().values())
    listed = CliRunner().invoke(cli, ["help"]).stdout
    assert [one for one in entries() if f"{one} " not in listed] == []


def test_an_entry_that_is_not_there_is_a_fault_of_usage_and_near_ones_are_named() -> None:
    done = CliRunner().invoke(cli, ["help", "notsent"])
    assert done.exit_code == ExitCode.USAGE
    assert "error-notsent" in done.stderr


@pytest.mark.parametrize("project", ["wheel"], indirect=True)
def test_an_installed_onceward_has_the_page(project: Project) -> None:
    done = project.python("-m", "onceward", "help", "check-group")
    assert done.stdout.rstrip() == entries()["check-group"], done.stderr
