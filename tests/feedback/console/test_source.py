"""The source of an answer, as a person and as a program are told it."""

from pathlib import Path

import pytest

from feedback.console.source import say_source, source_json
from feedback.settings.settings import load

URL = "postgresql+psycopg://me:hidden@db/pay?password=hidden&sslmode=require"


def test_group_and_database_are_told_without_a_password(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ONCEWARD_JOURNAL__URL", raising=False)
    file = tmp_path / "settings.toml"
    file.write_text(f'[kafka]\ngroup = "pay"\n[journal]\nurl = "{URL}"\n')
    settings = load(str(file))
    say_source(settings)
    say_source(settings, section="")
    say_source(settings, as_json=True)
    shown = "postgresql+psycopg://me:***@db/pay?sslmode=require"
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"group pay, journal {shown}\ngroup pay\n")
    assert source_json(settings) == {"group": "pay", "journal": shown}
