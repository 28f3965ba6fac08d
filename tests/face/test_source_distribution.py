"""A source distribution has the documentation, and all that `make docs` needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.documents import DOCS, ROOT
from tests.kit.settings import environment

_LIST = "import setuptools; setuptools.setup()"
NEEDED = ("Makefile", "tests/build.lock", "tests/requirements.lock", "CONTRIBUTING.md")


def test_it_has_each_file_of_the_documentation(tmp_path: Path) -> None:
    subprocess.run(
        (sys.executable, "-c", _LIST, "--quiet", "egg_info", "--egg-base", str(tmp_path)),
        cwd=ROOT,
        env=environment(),
        check=True,
        capture_output=True,
        timeout=120,
    )
    listed = set((tmp_path / "onceward.egg-info/SOURCES.txt").read_text("utf-8").splitlines())
    files = [one for one in DOCS.rglob("*") if one.is_file() and "__pycache__" not in one.parts]
    assert len(files) > 60
    wanted = {str(one.relative_to(ROOT)) for one in files} | set(NEEDED)
    assert sorted(wanted - listed) == []
