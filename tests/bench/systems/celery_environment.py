"""Celery's own virtual environment: made once, in the user's cache folder, from pinned versions."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from onceward.servers.cache import cache_folder, only_one
from tests.bench.launching import run

LOCK = Path(__file__).with_name("celery.lock")
INSTALL_LIMIT_S = 300.0


def pinned(package: str) -> str:
    """Return the version of a package in the lock file."""
    versions = dict(line.split("==") for line in LOCK.read_text(encoding="utf-8").split())
    return versions[package]


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
            [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "-r", str(LOCK)],
        )
        for step in steps:
            run(step, environ=os.environ, log=log, timeout_s=INSTALL_LIMIT_S)
        ready.write_text(wanted, encoding="utf-8")
    return python
