"""Toxiproxy, built once by Go and kept in the user's cache folder.

It costs some 25 s on an empty cache with Go 1.26, 6 s with Debian's 1.19, and 16 MB afterwards.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from onceward.servers.attempts import last_lines, run_with_retries
from onceward.servers.cache import cache_folder, only_one
from onceward.servers.errors import StackError
from onceward.servers.packages import program

# The newest that Debian's Go 1.19 builds.
VERSION = "v2.7.0"
MODULE = f"github.com/Shopify/toxiproxy/v2/cmd/server@{VERSION}"
BUILD_LIMIT_S = 300.0
# No C compiler and no other toolchain than the one that is there.
_GO = {"CGO_ENABLED": "0", "GOTOOLCHAIN": "local"}


def toxiproxy_program() -> Path:
    """Return where the program belongs, there or not; named after its version."""
    return cache_folder() / f"toxiproxy-{VERSION}"


def build_toxiproxy() -> bool:
    """Build the program unless it is there; say whether it had to be built.

    Raises:
        StackError: Go is missing, failed, or took longer than `BUILD_LIMIT_S`.
    """
    target = toxiproxy_program()
    if target.exists():
        return False
    with only_one(target.with_name(f"{target.name}.lock")):
        if target.exists():
            return False
        part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
        try:
            _install(part)
            (part / "server").rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return True


def _install(folder: Path) -> None:
    try:
        done = run_with_retries(
            (program("go"), "install", MODULE),
            environ=os.environ | _GO | {"GOBIN": str(folder)},
            timeout_s=BUILD_LIMIT_S,
        )
    except subprocess.TimeoutExpired as error:
        raise StackError(f"Go did not build Toxiproxy within {BUILD_LIMIT_S:g} s") from error
    if done.returncode:
        printed = last_lines(done.stdout)
        raise StackError(f"Go could not build Toxiproxy (code {done.returncode})", printed)
