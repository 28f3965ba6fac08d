"""A virtual environment for each peer: made once, in the user's cache folder, from a lock file."""

from __future__ import annotations

import os
import re
import shutil
import sys
from pathlib import Path

from onceward.servers.cache import cache_folder, only_one
from tests.bench.launching import run

INSTALL_LIMIT_S = 300.0
# Nothing but the files that were locked.
INSTALL = ("-m", "pip", "install", "--quiet", "--no-deps", "--require-hashes", "-r")


def lock_of(product: str) -> Path:
    """Return the lock file of a product."""
    return Path(__file__).with_name(f"{product}.lock")


def pins(product: str) -> dict[str, str]:
    """Return the version of each package in a lock file; its hashes stand in further lines."""
    text = lock_of(product).read_text(encoding="utf-8")
    return dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))


def pinned(product: str) -> str:
    """Return the locked version of a product."""
    return pins(product)[product]


def python_of(product: str) -> Path:
    """Return the interpreter of an environment that has a product, made if need be.

    Raises:
        BenchError: it could not be installed; holds the last lines of pip.
    """
    target = cache_folder() / f"{product}-{pinned(product)}"
    python, ready, lock = target / "bin" / "python", target / ".ready", lock_of(product)
    with only_one(target.with_name(f"{target.name}.lock")):
        # Whoever left it without the mark did not finish; another lock file wants another one.
        wanted = f"{sys.version}\n{lock.read_text(encoding='utf-8')}"
        if ready.is_file() and ready.read_text(encoding="utf-8") == wanted:
            return python
        shutil.rmtree(target, ignore_errors=True)
        log = target.with_name(f"{target.name}.log")
        log.unlink(missing_ok=True)
        steps = (
            [sys.executable, "-m", "venv", str(target)],
            [str(python), *INSTALL, str(lock)],
        )
        for step in steps:
            run(step, environ=os.environ, log=log, timeout_s=INSTALL_LIMIT_S)
        ready.write_text(wanted, encoding="utf-8")
    return python
