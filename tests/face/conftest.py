"""A project that installed Onceward, and has a `consumer.py` and a `feedback/` of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from consumer.handlers.declaration import Handler
from consumer.handlers.registry import DECLARED
from onceward.checkout.wheel_tree import write_tree
from tests.kit.settings import environment

ROOT = Path(__file__).parents[2]
LIMIT_S = 120.0
HANDLERS = """
from onceward import Rejected, Request, handler


@handler(topic={topic!r}, effect="marked")
def charge(request: Request) -> dict[str, object]:
    with request.effect():
        return {{"of": __name__, "by": Rejected.__module__}}
"""


@pytest.fixture
def no_handler_stays() -> Iterator[None]:
    """Begin with no handlers, and forget those that the test declares here, by pytester too.

    A command that a test runs in this process declares the handlers of its settings for good.
    """
    before: dict[str, Handler] = dict(DECLARED._by_topic)
    DECLARED._by_topic.clear()
    yield
    DECLARED._by_topic.clear()
    DECLARED._by_topic.update(before)


@dataclass(frozen=True, slots=True)
class Project:
    """A user's folder.

    Attributes:
        installed: the folder in the place of `site-packages`: of the wheel, or the checkout.
    """

    folder: Path
    installed: Path

    @property
    def environ(self) -> dict[str, str]:
        """The environment in which its programs run."""
        return environment(PYTHONPATH=str(self.installed))

    def python(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run an interpreter in the folder to its end."""
        return subprocess.run(
            (sys.executable, *arguments),
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the packages of the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    write_tree(ROOT, folder)
    return folder


@pytest.fixture(params=["wheel", "checkout"])
def project(request: pytest.FixtureRequest, installed: Path, tmp_path: Path) -> Project:
    """Return a project whose own names are those of our rooms."""
    folder = tmp_path / "project"
    (folder / "feedback").mkdir(parents=True)
    (folder / "feedback" / "__init__.py").write_text("OWN = True\n")
    (folder / "consumer.py").write_text(HANDLERS.format(topic="payments"))
    return Project(folder, installed if request.param == "wheel" else ROOT)
