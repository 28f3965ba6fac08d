"""A certified OpenID Connect provider, `oidc-provider` of npm, and its own pages.

npm fetches it once, by the hashes of its lock, and the user's cache keeps it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from onceward.servers.attempts import last_lines, run_with_retries
from onceward.servers.cache import cache_folder, only_one
from onceward.servers.errors import StackError
from onceward.servers.packages import program, require

FOLDER = Path(__file__).parent
FETCH_LIMIT_S = 120.0
CLIENT_ID = "the console"
CLIENT_SECRET = "s3cret: &%41+"


def openid_folder() -> Path:
    """Return the folder with the provider, fetched where it is not there yet.

    Raises:
        StackError: Node.js or npm is missing, or npm failed.
    """
    require(["node"])
    lock = (FOLDER / "package-lock.json").read_bytes()
    target = cache_folder() / f"openid-{sha256(lock).hexdigest()[:16]}"
    if not target.is_dir():
        require(["npm"])
        with only_one(target.with_name(f"{target.name}.lock")):
            if not target.is_dir():
                _fetch(target)
    return target


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        part = Path(made) / "part"
        part.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(FOLDER / name, part)
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
        try:
            done = run_with_retries(
                (program("npm"), "ci", *quiet, "--prefix", str(part)), timeout_s=FETCH_LIMIT_S
            )
        except subprocess.TimeoutExpired as error:
            raise StackError(f"npm did not fetch a provider in {FETCH_LIMIT_S:g} s") from error
        if done.returncode:
            said = f"npm could not fetch a provider (code {done.returncode})"
            raise StackError(said, last_lines(done.stdout))
        part.rename(target)


@contextmanager
def openid_provider(folder: Path, back: str, *, port: int = 0) -> Iterator[int]:
    """Yield the port of a provider with keys of its own, for the length of the block.

    Args:
        folder: see `openid_folder`.
        back: the address to which it sends browsers back.
        port: its own; 0 for a free one.
    """
    told = {"port": port, "id": CLIENT_ID, "secret": CLIENT_SECRET, "back": back}
    arguments = (str(FOLDER / "provider.mjs"), str(folder), json.dumps(told))
    with subprocess.Popen(
        (program("node"), *arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            first, _, number = process.stdout.readline().strip().partition(" ")
            if first != "port":
                raise StackError("the provider did not start")
            yield int(number)
        finally:
            process.kill()
