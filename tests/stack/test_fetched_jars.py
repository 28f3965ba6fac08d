"""Jars are fetched at a second attempt, whatever Maven has remembered of the first one."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import pytest

from onceward.servers import jars
from onceward.servers.attempts import run_with_retries

# As Maven: what it has not found it does not ask for again, unless updates are forced.
_MAVEN = """#!/bin/sh
if [ -e "{remembered}" ]; then
    case " $* " in
    *" -U "*) for last; do :; done; touch "${{last#*=}}/a.jar"; exit 0;;
    *) echo "This failure was cached in the local repository"; exit 1;;
    esac
fi
touch "{remembered}"
exit 1
"""


def test_what_was_not_found_once_is_asked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = tmp_path / "mvn"
    maven.write_text(_MAVEN.format(remembered=tmp_path / "remembered"))
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    monkeypatch.setattr(jars, "run_with_retries", partial(run_with_retries, pause_s=0))
    assert jars.fetch(jars.POM, tmp_path / "kafka", "Kafka")
    assert [one.name for one in (tmp_path / "kafka").iterdir()] == ["a.jar"]
