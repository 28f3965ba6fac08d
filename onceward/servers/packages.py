"""The programs the stack runs, and the Debian packages that bring them."""

import os
import shutil
from collections.abc import Iterable
from pathlib import Path

from onceward.servers.attempts import last_lines, run_with_retries
from onceward.servers.cache import cache_folder, only_one
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
INSTALL_LIMIT_S = 900.0
# Another installation on the same machine holds apt's own lock: wait for it.
_APT = ("apt-get", "-q", "-y", "-o", "DPkg::Lock::Timeout=300")


def program(name: str) -> str:
    """Return the path of a program.

    Raises:
        StackError: it is not installed; names the package.
    """
    path = _find(name)
    if path is None:
        raise StackError(_advice([PACKAGES[name]]))
    return path


def require(names: Iterable[str]) -> None:
    """Return when these programs are installed.

    Raises:
        StackError: some are not; it has the one command that installs their packages.
    """
    if missing := _missing(names):
        raise StackError(_advice(missing))


def install_missing(names: Iterable[str]) -> list[str]:
    """Install the packages of those programs that are missing; return the packages installed.

    Raises:
        StackError: packages are missing and cannot be installed from here; names them.
    """
    wanted = sorted(names)
    if not _missing(wanted):
        return []
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise StackError(_advice(_missing(wanted)))
    with only_one(cache_folder() / "apt.lock"):
        packages = _missing(wanted)
        if packages:
            # One of the machine's sources may be gone, and what is missing come from the others.
            stale = _apt_fault("update")
            if fault := _apt_fault("install", "--no-install-recommends", *packages):
                raise stale or fault
        return packages


def _missing(names: Iterable[str]) -> list[str]:
    return sorted({PACKAGES[name] for name in names if _find(name) is None})


def _find(name: str) -> str | None:
    # Debian keeps each version of PostgreSQL beside the others and off the PATH; newest first.
    versions = Path("/usr/lib/postgresql").glob("*/bin")
    by_version = sorted(versions, key=lambda folder: folder.parent.name.zfill(4), reverse=True)
    # All from one place: an initdb of one version does not suit a server of another.
    # Nor does a user's PATH have Debian's folder for administrators.
    places = [*map(str, by_version), os.environ.get("PATH", os.defpath), "/usr/sbin"]
    return shutil.which(name, path=os.pathsep.join(places))


def _advice(packages: list[str]) -> str:
    words = " ".join(packages)
    return f"not installed: {', '.join(packages)}; run `apt-get install {words}` as root"


def _apt_fault(*words: str) -> StackError | None:
    environ = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    done = run_with_retries((*_APT, *words), environ=environ, timeout_s=INSTALL_LIMIT_S)
    if not done.returncode:
        return None
    said = f"apt-get {words[0]} failed (code {done.returncode})"
    return StackError(said, last_lines(done.stdout))
