"""The folder of a project in which journal and servers keep their data over restarts."""

from __future__ import annotations

from pathlib import Path

DATA_FOLDER = ".onceward"


def make_data_folder(folder: Path) -> None:
    """Make the folder, which git leaves out."""
    folder.mkdir(exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
