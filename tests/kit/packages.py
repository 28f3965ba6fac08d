"""Installs the Debian packages of programs that tests need."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable

from onceward.servers.attempts import last_lines, run_with_retries
from onceward.servers.cache import cache_folder, only_one
from onceward.servers.errors import StackError
from onceward.servers.packages import advice, missing_packages

INSTALL_LIMIT_S = 900.0
# Another installation on the same machine holds apt's own lock: wait for it.
_APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")


def install_missing(names: Iterable[str]) -> list[str]:
    """Install the packages of those programs that are missing; return the packages installed.

    Raises:
        StackError: packages are missing and cannot be installed from here; names them.
    """
    wanted = sorted(names)
    if not missing_packages(wanted):
        return []
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise StackError(advice(missing_packages(wanted)))
    with only_one(cache_folder() / "apt.lock"):
        packages = missing_packages(wanted)
        if packages:
            # One of the machine's sources may be gone, and what is missing come from the others.
            stale = _apt_fault("update")
            if fault := _apt_fault("install", "--no-install-recommends", *packages):
                raise stale or fault
        return packages


def _apt_fault(*words: str) -> StackError | None:
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = run_with_retries((*_APT, *words), environ=environ, timeout_s=INSTALL_LIMIT_S)
    if not done.returncode:
        return None
    said = f"apt-get {words[0]} failed (code {done.returncode})"
    return StackError(said, last_lines(done.stdout))
