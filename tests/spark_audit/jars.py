"""The jars that Spark needs for Kafka and JDBC: fetched once by Maven, kept in the user's cache."""

import shutil
import subprocess
import tempfile
from pathlib import Path

from spark_audit.jars import find_jars, jars_folder
from tests.stack.cache import cache_folder, only_one
from tests.stack.errors import StackError
from tests.stack.jars import FETCH_LIMIT_S
from tests.stack.packages import install_missing, program

POM = Path(__file__).parents[2] / "config" / "audit" / "pom.xml"


def audit_jars() -> list[Path]:
    """Return the jars, fetched when they are not there yet; of several processes one fetches.

    Raises:
        StackError: Maven is missing or failed; holds what it printed.
    """
    target = jars_folder()
    if not target.is_dir():
        with only_one(cache_folder() / f"{target.name}.lock") as lock:
            if not target.is_dir():
                _fetch(target, lock)
    return find_jars(target)


def _fetch(target: Path, lock: int) -> None:
    install_missing(["mvn", "java"])
    # Whoever made these died: Maven inherits the lock, so it is not still writing either.
    for abandoned in target.parent.glob(f"{target.name}.part-*"):
        shutil.rmtree(abandoned)
    part = Path(tempfile.mkdtemp(prefix=f"{target.name}.part-", dir=target.parent))
    try:
        _copy_dependencies(part, lock)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _copy_dependencies(folder: Path, lock: int) -> None:
    maven = (program("mvn"), "-B", "-q", "-f", str(POM))
    goal = ("dependency:copy-dependencies", f"-DoutputDirectory={folder}")
    done = subprocess.run(
        (*maven, *goal),
        pass_fds=(lock,),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=FETCH_LIMIT_S,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-20:])
        raise StackError(f"Maven could not fetch Spark's jars (code {done.returncode})", last)


if __name__ == "__main__":
    audit_jars()
