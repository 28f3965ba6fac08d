"""Each command that a document shows is taken by its own parser; its settings are read."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from feedback.settings.settings import load
from tests.documents import documents, examples
from tests.how_to.commands import blocks, inline, ours, parse


def test_each_command_of_a_block_is_whole() -> None:
    lines = [line for text in documents().values() for line in blocks(text) if ours(line)]
    assert len(lines) > 50
    for line in lines:
        parse(ours(line))


def test_each_command_of_a_sentence_has_its_words_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "resend.jsonl").touch()
    lines = [line for text in documents().values() for line in inline(text)]
    assert len(lines) > 50
    for line in lines:
        parse(ours(line), is_whole=False)


@pytest.mark.parametrize(
    "line",
    ["onceward-dlq listen", "onceward-dlq list --sinse 2h", "onceward worker check --role me"],
)
def test_a_command_that_is_not_there_is_found(line: str) -> None:
    with pytest.raises(click.UsageError):
        parse(ours(line), is_whole=False)


@pytest.mark.parametrize("block", examples("toml").items(), ids=examples("toml"))
def test_each_piece_of_settings_is_read(block: tuple[str, str], tmp_path: Path) -> None:
    path = tmp_path / "onceward.toml"
    path.write_text(re.sub("…", "", block[1]))
    load(str(path))
