"""The programs the stack runs, and the Debian packages that bring them."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from onceward.servers.errors import StackError

PACKAGES = {
    "redis-server": "redis-server",
    "openssl": "openssl",
    "initdb": "postgresql",
    "postgres": "postgresql",
    "pgbouncer": "pgbouncer",
    "pg_basebackup": "postgresql",
    "java": "openjdk-17-jre-headless",
    "mvn": "maven",
    "go": "golang-go",
    "systemd-analyze": "systemd",
    "prometheus": "prometheus",
    "promtool": "prometheus",
    "chromium": "chromium",
    "chromedriver": "chromium-driver",
    "node": "nodejs",
    "npm": "npm",
}


def program(name: str) -> str:
    """Return the path of a program.

    Raises:
        StackError: it is not installed; names the package.
    """
    path = _find(name)
    if path is None:
        raise StackError(advice([PACKAGES[name]]))
    return path


def require(names: Iterable[str]) -> None:
    """Return when these programs are installed.

    Raises:
        StackError: some are not; it has the one command that installs their packages.
    """
    if missing := missing_packages(names):
        raise StackError(advice(missing))


def missing_packages(names: Iterable[str]) -> list[str]:
    """Return the packages of those programs that are not installed."""
    return sorted({PACKAGES[name] for name in names if _find(name) is None})


def _find(name: str) -> str | None:
    # Debian keeps each version of PostgreSQL beside the others and off the PATH; newest first.
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    by_version = sorted(versions, key=lambda folder: folder.parent.name.zfill(4), reverse=True)
    # All from one place: an initdb of one version does not suit a server of another.
    # Nor does a user's PATH have Debian's folder for administrators.
    places = [*map(str, by_version), os.environ.get("PATH", os.defpath), "/usr/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


def advice(packages: list[str]) -> str:
    """Return the sentence that says how these packages are installed."""
    words = " ".join(packages)
    return f"not installed: {', '.join(packages)}; run `apt-get install {words}` as root"
