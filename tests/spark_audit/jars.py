"""The jars that Spark needs for Kafka and JDBC: fetched once by Maven, kept in the user's cache.

Those for S3 lie in a folder of their own, which has the others as well: only tests need them.
"""

import sys
from pathlib import Path

from onceward.servers.cache import cache_folder
from onceward.servers.jars import fetch
from spark_audit.spark import find_jars, jars_folder
from tests.kit.in_words import in_words
from tests.kit.packages import install_missing

POM = Path(__file__).parents[2] / "config" / "audit" / "pom.xml"
S3A = "s3a"


def audit_jars(*, profile: str = "") -> list[Path]:
    """Return the jars, fetched when they are not there yet; of several processes one fetches.

    Args:
        profile: of the POM; `S3A` for an output in a bucket.

    Raises:
        StackError: Maven is missing or failed; holds what it printed.
    """
    target = jars_folder()
    if profile:
        target = target.with_name(f"{target.name}-{profile}")
    if not target.is_dir():
        cache_folder()  # which the jars lie in, is made by this
        install_missing(["mvn", "java"])
        fetch(POM, target, "Spark's jars", profile=profile)
    return find_jars(target)


if __name__ == "__main__":
    with in_words():
        for wanted in sys.argv[1:] or [""]:
            audit_jars(profile=wanted)
