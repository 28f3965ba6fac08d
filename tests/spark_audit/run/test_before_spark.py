"""What can be wrong before Spark starts is told before it does, in one sentence."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from feedback.errors import NotAvailable, OncewardError, SettingsError
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.output.run_lock import alone
from spark_audit.run import opening
from spark_audit.run.audit import run_audit
from tests.spark_audit.command import run_audit_command
from tests.spark_audit.jars import audit_jars
from tests.spark_audit.run.scene import WINDOW, Scene
from tests.spark_audit.stage.samples import DATE

Refuse = Callable[..., str]


@pytest.fixture
def refuse(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Refuse:
    """Return a function that runs the audit and returns its error; Spark must not start."""

    def start(**_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(opening, "open_session", start)

    def refused(kind: type[OncewardError] = NotAvailable, **sections: dict[str, Any]) -> str:
        settings = scene.settings()
        given = {"audit": {}, **sections}
        given["audit"]["jars"] = str(audit_jars()[0].parent)
        changed = {
            name: getattr(settings, name).model_copy(update=section)
            for name, section in given.items()
        }
        with pytest.raises(kind) as raised:
            run_audit(settings.model_copy(update=changed), WINDOW, parse_fail_on("lost>0"))
        assert "\n" not in str(raised.value)
        assert scene.has_no_end()
        return str(raised.value)

    return refused


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_settings_topics_and_group_are_looked_at_before_spark_starts(
    scene: Scene, refuse: Refuse, topic: Callable[..., str]
) -> None:
    assert "[audit] topics names none" in refuse(SettingsError, audit={"topics": ()})
    assert not scene.output.exists()
    refuse(SettingsError, kafka={"ssl_ciphers": "x"})
    refuse(SettingsError, journal={"url": "mysql://here/j"})
    assert "does not exist" in refuse(audit={"topics": (f"{scene.topic}-missing",)})
    none = f"group misspelt does not exist or has never committed an offset of {scene.topic}: "
    assert refuse(kafka={"group": "misspelt"}).startswith(none)
    both = {"topics": (scene.topic, topic(1))}
    assert refuse(kafka={"group": "misspelt"}, audit=both).startswith(none)


def test_the_journal_is_looked_at_before_spark_starts(scene: Scene, refuse: Refuse) -> None:
    scene.journal.change("ALTER TABLE onceward_forgotten RENAME TO kept")
    assert "has no tables yet: run `onceward-worker migrate`" in refuse()


@pytest.mark.parametrize("journal_url", ["postgres"], indirect=True)
def test_a_journal_that_may_not_be_read_is_told_before_spark_starts(
    scene: Scene, refuse: Refuse
) -> None:
    role = f"auditor_{uuid.uuid4().hex}"
    scene.journal.change(f"CREATE ROLE {role} LOGIN")
    scene.journal.change(f"GRANT SELECT ON onceward_meta, onceward_request TO {role}")
    url = make_url(scene.journal.url).set(username=role)
    try:
        as_auditor = {"url": url.render_as_string(hide_password=False)}
        told = refuse(journal=as_auditor)
        scene.journal.change("REVOKE USAGE ON SCHEMA public FROM PUBLIC")
        hidden = refuse(journal=as_auditor)
    finally:
        scene.journal.change(f"DROP OWNED BY {role}")
        scene.journal.change(f"DROP ROLE {role}")
    assert "cannot be read: this user lacks a right: GRANT SELECT ON onceward_run to it" in told
    assert "this user lacks a right: GRANT USAGE ON SCHEMA public to it" in hidden


@pytest.mark.parametrize("journal_url", ["sqlite"], indirect=True)
def test_the_folder_is_looked_at_before_spark_starts(scene: Scene, refuse: Refuse) -> None:
    with alone(scene.output):
        assert "another audit writes to" in refuse()
    scene.output.joinpath(".lock").unlink()
    scene.output.rmdir()
    scene.output.touch()
    assert "cannot be written" in refuse()
    scene.output.unlink()


def test_no_topics_are_a_usage_error(tmp_path: Path) -> None:
    settings = tmp_path / "settings.toml"
    settings.write_text("[audit]\ntopics = []\n")
    ended = run_audit_command(settings, "--date", DATE)
    assert ended.returncode == 2
    assert ended.stderr.startswith(
        "error: [audit] topics names none: which topics are to be judged?\n"
    )
