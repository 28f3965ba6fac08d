"""The broker's jars: fetched once by Maven, kept in the user's cache folder."""

import shutil
import subprocess
import tempfile
from pathlib import Path
from xml.etree import ElementTree

from onceward.servers.attempts import last_lines, run_with_retries
from onceward.servers.cache import cache_folder, only_one
from onceward.servers.errors import StackError
from onceward.servers.packages import program

POM = Path(__file__).with_name("pom.xml")
FETCH_LIMIT_S = 300.0
# As a formatted data folder has it.
FEATURES = "bootstrap.checkpoint"


def jars_folder() -> Path:
    """Return the folder the jars belong into, there or not; named after the version in the POM."""
    version = ElementTree.parse(POM).findtext(".//{*}kafka.version")
    return cache_folder() / f"kafka-{version}"


def classes_file() -> Path:
    """Return the file of the broker's classes, there or not; it goes with its jars."""
    return jars_folder() / "classes.jsa"


def features_file() -> Path:
    """Return the file of the features that a new cluster has, there or not; likewise."""
    return jars_folder() / FEATURES


def fetch_jars() -> bool:
    """Fetch the broker's jars unless they are there; say whether they had to be fetched.

    Raises:
        StackError: see `fetch`.
    """
    return fetch(POM, jars_folder(), "Kafka")


def fetch(pom: Path, target: Path, owner: str, *, profile: str = "") -> bool:
    """Fetch the jars of a POM unless their folder is there; say whether they had to be fetched.

    The folder appears with all of them or not at all, and of two runs that start together one
    fetches while the other waits.

    Args:
        owner: of the jars, for an error.
        profile: of the POM, beside its usual dependencies.

    Raises:
        StackError: Maven failed or took longer than `FETCH_LIMIT_S`; holds its output.
    """
    if target.is_dir():
        return False
    with only_one(target.with_name(f"{target.name}.lock")) as lock:
        if target.is_dir():
            return False
        # Their maker died, and Maven with it or before: it inherits the lock.
        for abandoned in target.parent.glob(f"{target.name}.part-*"):
            shutil.rmtree(abandoned)
        part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
        try:
            _copy_dependencies(pom, part, lock, owner, profile)
            part.rename(target)
        finally:
            shutil.rmtree(part, ignore_errors=True)
        return True


def _copy_dependencies(pom: Path, folder: Path, lock: int, owner: str, profile: str) -> None:
    # -U: else it remembers for a day what it did not find, and a second attempt asks nobody.
    of_all = (program("mvn"), "-B", "-q", "-U", "-f", str(pom))
    maven = (*of_all, *(("-P", profile) if profile else ()))
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    try:
        done = run_with_retries((*maven, *goal), pass_fds=(lock,), timeout_s=FETCH_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        raise StackError(f"Maven did not fetch {owner} within {FETCH_LIMIT_S:g} s") from error
    if done.returncode:
        raise StackError(
            f"Maven could not fetch {owner} (code {done.returncode})", last_lines(done.stdout)
        )
