"""What is missing is installed, also where one of the machine's sources of packages is gone."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from onceward.servers import packages as of_the_stack
from onceward.servers.attempts import ATTEMPTS, run_with_retries
from onceward.servers.errors import StackError
from tests.kit import packages

# As apt: a source cannot be read, and a package is installed all the same, if it may be.
_APT = """#!/bin/sh
echo "$*" >> "{calls}"
case "$*" in
*" update") echo "E: a source is gone"; exit 100;;
*) echo "E: no such package"; exit {code};;
esac
"""


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return what apt was called with, by root on a machine that lacks everything."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(of_the_stack, "_find", lambda name: None)
    monkeypatch.setattr(packages, "run_with_retries", partial(run_with_retries, pause_s=0))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    return tmp_path / "calls"


def _apt(calls: Path, code: int) -> None:
    program = calls.with_name("apt-get")
    program.write_text(_APT.format(calls=calls, code=code))
    program.chmod(0o755)


def test_a_package_is_installed_though_a_source_is_gone(calls: Path) -> None:
    _apt(calls, code=0)
    assert packages.install_missing(["redis-server"]) == ["redis-server"]
    assert calls.read_text().splitlines()[-1].endswith(" redis-server")


def test_a_package_that_cannot_be_installed_is_told_with_the_source(calls: Path) -> None:
    _apt(calls, code=100)
    with pytest.raises(StackError, match=r"(?s)apt-get update failed.*a source is gone"):
        packages.install_missing(["redis-server"])
    assert len(calls.read_text().splitlines()) == 2 * ATTEMPTS
