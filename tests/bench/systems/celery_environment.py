"""Celery's own virtual environment: made once, in the user's cache folder, from pinned versions."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from onceward.servers.cache import cache_folder, only_one
from tests.bench.launching import run

LOCK = Path(__file__).with_name("celery.lock")
INSTALL_LIMIT_S = 300.0
# Nothing but the files that were locked.
INSTALL = ("-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r")


def pinned(package: str) -> str:
    """Return the version of a package in the lock file."""
    return pins()[package]


def pins() -> dict[str, str]:
    """Return the version of each package in the lock file; its hashes stand in further lines."""
    return dict(re.findall(r"^([\w.-]+)==(\S+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE))


def celery_python() -> Path:
    """Return the interpreter of an environment that has Celery, made if need be.

    Raises:
        BenchError: it could not be installed; holds what pip said.
    """
    target = cache_folder() / f"celery-{pinned('celery')}"
    python, ready = target / "bin" / "python", target / ".ready"
    with only_one(target.with_name(f"{target.name}.lock")):
        # Whoever left it without the mark did not finish; another lock file wants another one.
        wanted = f"{sys.version}\n{LOCK.read_text(encoding='utf-8')}"
        if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
            return python
        shutil.rmtree(target, ignore_errors=True)
        log = target.with_name(f"{target.name}.log")
        log.unlink(missing_ok=True)
        steps = (
            [sys.executable, "-m", "venv", str(target)],
            [str(python), *INSTALL, str(LOCK)],
        )
        for step in steps:
            run(step, environ=os.environ, log=log, timeout_s=INSTALL_LIMIT_S)
        ready.write_text(wanted, encoding="utf-8")
    return python
