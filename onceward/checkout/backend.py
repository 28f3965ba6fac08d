"""The build back end of `pyproject.toml`: setuptools, given the tree in which rooms lie below.

An editable install is the checkout itself, on the path by a plain `.pth` file: type checkers and
editors follow that, and not setuptools' finders.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from setuptools import build_meta
from setuptools.build_meta import (
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

from onceward.checkout.wheel_tree import write_tree

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Config = dict[str, Any] | None
_PLAIN_PATH = {"editable_mode": "compat"}


def build_wheel(
    wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None
) -> str:
    """Build a wheel with one top-level name (PEP 517)."""
    target = str(Path(wheel_directory).absolute())
    known = None if metadata_directory is None else str(Path(metadata_directory).absolute())
    with _tree_of_wheel():
        return str(build_meta.build_wheel(target, config_settings, known))


def prepare_metadata_for_build_wheel(
    metadata_directory: str, config_settings: Config = None
) -> str:
    """Write the metadata of such a wheel (PEP 517)."""
    target = str(Path(metadata_directory).absolute())
    with _tree_of_wheel():
        return str(build_meta.prepare_metadata_for_build_wheel(target, config_settings))


def build_editable(
    wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None
) -> str:
    """Put the checkout on the path (PEP 660)."""
    settings = {**_PLAIN_PATH, **(config_settings or {})}
    return str(build_meta.build_editable(wheel_directory, settings, metadata_directory))


def prepare_metadata_for_build_editable(
    metadata_directory: str, config_settings: Config = None
) -> str:
    """Write the metadata of an editable install (PEP 660)."""
    settings = {**_PLAIN_PATH, **(config_settings or {})}
    return str(build_meta.prepare_metadata_for_build_editable(metadata_directory, settings))


@contextmanager
def _tree_of_wheel() -> Iterator[None]:
    root = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="onceward-wheel-") as folder:
        write_tree(root, Path(folder))
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(root)
