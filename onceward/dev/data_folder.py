"""The folder of a project in which journal and servers keep their data over restarts."""

from __future__ import annotations

from pathlib import Path

from feedback.files import OWNER_ONLY_FOLDER

DATA_FOLDER = ".onceward"


def make_data_folder(folder: Path) -> None:
    """Make the folder, which git leaves out and its owner alone may enter: payloads stand in it."""
    folder.mkdir(mode=OWNER_ONLY_FOLDER, exist_ok=True)
    (folder / ".gitignore").write_text("*\n", encoding="utf-8")
