"""The name of a command's user, and the settings that it works with."""

import os
from pathlib import Path
from unittest.mock import patch

import click
import pytest

from consumer.features.pausing.commands import _me
from feedback.console.commands import OF_A_GROUP, log_level_option, settings_of, user_name
from feedback.errors import SettingsError


@pytest.mark.parametrize("error", [KeyError("uid not found"), OSError("no username set")])
def test_a_user_without_a_name_is_told_by_its_number(error: Exception) -> None:
    with patch("getpass.getuser", side_effect=error):
        assert user_name() == f"uid-{os.getuid()}"
        assert _me().startswith(f"uid-{os.getuid()}@")


@pytest.fixture
def nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Work in an empty folder, with no setting in the environment; return it."""
    for name in os.environ:
        if name.startswith("ONCEWARD_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _a_file(path: Path, group: str) -> str:
    path.write_text(f'[kafka]\ngroup = "{group}"\n')
    return str(path)


def test_a_file_is_the_one_given_else_the_variables_else_the_one_here(
    nothing_named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _a_file(nothing_named / "onceward.toml", "here")
    assert settings_of(None).kafka.group == "here"
    monkeypatch.setenv("ONCEWARD_CONFIG", _a_file(nothing_named / "other.toml", "variable"))
    assert settings_of(None).kafka.group == "variable"
    assert settings_of(_a_file(nothing_named / "third.toml", "given")).kafka.group == "given"


def test_an_answer_about_a_group_that_nobody_named_is_refused(
    nothing_named: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SettingsError, match="__GROUP and ONCEWARD_JOURNAL__URL"):
        settings_of(None)
    monkeypatch.setenv("ONCEWARD_KAFKA__GROUP", "payments")
    with pytest.raises(SettingsError, match="ONCEWARD_JOURNAL__URL"):
        settings_of(None)
    assert settings_of(None, needs=OF_A_GROUP).kafka.group == "payments"
    monkeypatch.setenv("ONCEWARD_JOURNAL__URL", "sqlite:///payments.db")
    assert settings_of(None).journal.url == "sqlite:///payments.db"


@pytest.mark.parametrize(
    ("variable", "arguments", "level"),
    [
        ("", [], "INFO"),
        ("debug", [], "DEBUG"),
        ("debug", ["--log-level", "warning"], "WARNING"),
    ],
)
def test_a_log_level_is_the_one_given_else_that_of_the_variable(
    nothing_named: Path,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    arguments: list[str],
    level: str,
) -> None:
    given: list[str] = []

    @click.command()
    @log_level_option
    def work(log_level: str) -> None:
        given.append(log_level)
        _a_file(nothing_named / "onceward.toml", "pay")
        settings_of(None)  # the variable is no setting

    monkeypatch.setenv("ONCEWARD_LOG_LEVEL", variable)
    work(arguments, standalone_mode=False)
    assert [one.upper() for one in given] == [level]
