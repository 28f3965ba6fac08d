"""The jars that Spark needs for Kafka and JDBC: fetched once by Maven, kept in the user's cache."""

from pathlib import Path

from spark_audit.jars import find_jars, jars_folder
from tests.stack.cache import cache_folder
from tests.stack.jars import fetch
from tests.stack.packages import install_missing

POM = Path(__file__).parents[2] / "config" / "audit" / "pom.xml"


def audit_jars() -> list[Path]:
    """Return the jars, fetched when they are not there yet; of several processes one fetches.

    Raises:
        StackError: Maven is missing or failed; holds what it printed.
    """
    target = jars_folder()
    if not target.is_dir():
        cache_folder()  # which the jars lie in, is made by this
        install_missing(["mvn", "java"])
        fetch(POM, target, "Spark's jars")
    return find_jars(target)


if __name__ == "__main__":
    audit_jars()
