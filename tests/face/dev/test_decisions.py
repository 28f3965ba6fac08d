"""The decisions of `onceward dev`, without a process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from feedback.errors import SettingsError
from feedback.settings.settings import Settings
from onceward.dev.dev_session import changed, snapshot
from onceward.dev.session_plan import exports_of, first_send, module_of, session_plan_of


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the suite's servers are named in the environment."""
    for name in [*os.environ]:
        if name.startswith("ONCEWARD_"):
            monkeypatch.delenv(name)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Return a folder with handlers in a package, and files that are not the user's own."""
    for name in ("shop/handlers.py", ".hidden/a.py", "venv/pyvenv.cfg", "venv/b.py", "c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    return tmp_path


def test_a_file_names_its_module(root: Path) -> None:
    assert module_of("shop/handlers.py", root=root) == "shop.handlers"
    assert module_of(str(root / "shop" / "handlers.py"), root=root) == "shop.handlers"


@pytest.mark.parametrize("argument", ["no.py", "../out.py", "a-b", "", "a/b"])
def test_another_file_is_refused(root: Path, argument: str) -> None:
    (root.parent / "out.py").write_text("")
    with pytest.raises(SettingsError):
        module_of(argument, root=root)


def test_only_settings_that_nobody_named_are_ours() -> None:
    named = Settings(kafka={"group": "g"}, journal={"url": "sqlite:///j.db"})
    assert session_plan_of(named, ["shop.handlers"], folder=Path("/d")).own == {
        "ONCEWARD_WORKER__HANDLERS": "shop.handlers"
    }
    ours = session_plan_of(Settings(), ["shop.handlers"], folder=Path("/d"))
    assert (ours.group, ours.journal_url) == ("handlers", "sqlite:////d/journal.db")
    with pytest.raises(SettingsError, match="run `onceward dev"):
        session_plan_of(Settings(), [], folder=Path("/d"))


def test_a_password_is_not_shown() -> None:
    plan = session_plan_of(Settings(), ["shop"], folder=Path("/d"))
    shown = exports_of(plan, {"ONCEWARD_REDIS__URL": "redis://:secret@cache/0", "HOME": "/"})
    assert shown == [
        "export ONCEWARD_KAFKA__GROUP=shop",
        "export ONCEWARD_JOURNAL__URL=sqlite:////d/journal.db",
    ]


def test_the_first_command_names_the_file_where_it_was_named() -> None:
    assert "--topic TOPIC --config a.toml" in first_send(Settings(), "a.toml")
    assert "--topic" not in first_send(Settings(client={"topic": "t"}), None)


def test_the_users_files_are_looked_at_and_no_others(root: Path) -> None:
    before = snapshot(root, root / "onceward.toml")
    assert [*before] == [str(root / "shop" / "handlers.py")]
    (root / "onceward.toml").write_text("")
    (root / "venv" / "b.py").write_text("x = 1")
    (root / "shop" / "handlers.py").unlink()
    now = snapshot(root, root / "onceward.toml")
    assert changed(before, now) == [str(root / "onceward.toml"), *before]
