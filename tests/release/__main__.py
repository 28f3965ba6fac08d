"""`make release-check`: prints each step with its time, and ends with 1 at the first fault."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from feedback import __version__
from tests.documents import DOCS, ROOT
from tests.kit.settings import environment
from tests.release.contents import of_sources, of_version, of_wheel
from tests.stack import Servers
from tests.tutorials.page import steps
from tests.tutorials.reader import reading

_BUILD = "import sys; from onceward.checkout import backend; backend.build_{}(sys.argv[1])"
TUTORIAL = DOCS / "tutorials/first-handler.md"


class NotReleasable(Exception):
    """A fault of what would be released."""


def main(folder: Path) -> None:
    """Build, look, install and use, in an empty folder.

    Raises:
        NotReleasable: names the faults.
    """
    with _step("version and changelog"):
        _require(of_version(__version__, (ROOT / "CHANGELOG.md").read_text("utf-8")))
    tracked = _printed("git", "ls-files").splitlines()
    with _step("source distribution"):
        sources = _built(_commit(folder / "commit"), "sdist", folder / "dist")
        with tarfile.open(sources) as archive:
            _require(of_sources(archive.getnames(), tracked))
            archive.extractall(folder / "unpacked", filter="data")
    with _step("wheel, from the source distribution"):
        (unpacked,) = (folder / "unpacked").iterdir()
        wheel = _built(unpacked, "wheel", folder / "dist")
        with zipfile.ZipFile(wheel) as archive:
            _require(of_wheel(archive.namelist(), tracked))
    with _step("installed in a clean environment"):
        programs = _installed(wheel, folder / "environment")
    with _step(f"{TUTORIAL.relative_to(ROOT)}, from the wheel"):
        _follow(programs, folder)


def _commit(folder: Path) -> Path:
    """Write the last commit into a folder: what is not committed is not released."""
    folder.mkdir()
    with (folder.parent / "commit.tar").open("wb") as file:
        subprocess.run(("git", "archive", "HEAD"), cwd=ROOT, check=True, stdout=file)
    with tarfile.open(file.name) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _built(sources: Path, kind: str, target: Path) -> Path:
    target.mkdir(exist_ok=True)
    before = {*target.iterdir()}
    _printed(sys.executable, "-c", _BUILD.format(kind), str(target), folder=sources)
    (built,) = {*target.iterdir()} - before
    return built


def _installed(wheel: Path, folder: Path) -> Path:
    """Install a wheel as a user does, with the newest packages that it allows."""
    _printed(sys.executable, "-m", "venv", str(folder))
    python = str(folder / "bin/python")
    _printed(python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", str(wheel))
    _printed(python, "-m", "pip", "check")
    share = folder / "share/onceward"
    for name in ("onceward.toml", "systemd/onceward-worker.service"):
        if not (share / name).is_file():
            raise NotReleasable(f"installed without {share / name}")
    if f"version {__version__}" not in _printed(str(folder / "bin/onceward"), "--version"):
        raise NotReleasable(f"`onceward --version` is not {__version__}")
    return folder / "bin"


def _follow(programs: Path, folder: Path) -> None:
    servers = Servers.of_environment(os.environ)
    place = folder / "reader"
    place.mkdir()
    with reading(place, servers, programs=[programs]) as reader:
        for step in steps(TUTORIAL.read_text("utf-8")):
            reader.follow(step)


def _printed(*command: str, folder: Path = ROOT) -> str:
    done = subprocess.run(
        command, cwd=folder, env=environment(), capture_output=True, text=True, timeout=600
    )
    if done.returncode:
        raise NotReleasable(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout


def _require(faults: Iterable[str]) -> None:
    found = list(faults)
    if found:
        raise NotReleasable("\n".join(found))


@contextmanager
def _step(name: str) -> Iterator[None]:
    begin_s = time.monotonic()
    yield
    print(f"good  {time.monotonic() - begin_s:6.1f} s  {name}", flush=True)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="onceward-release-") as made:
        try:
            main(Path(made))
        except (NotReleasable, AssertionError) as fault:
            sys.exit(f"not releasable: {fault}")
