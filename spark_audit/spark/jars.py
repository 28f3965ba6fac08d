"""Finds the jars that Spark needs for Kafka and for the journal's database."""

from __future__ import annotations

from pathlib import Path

from feedback.errors import NotAvailable
from feedback.files import cache_place, home_folder

# Spark's own version, as config/audit/pom.xml names it: the folder is called after it.
VERSION = "4.2.0"
POM = "config/audit/pom.xml"
# Every run needs these; a driver is needed when its kind of journal is read.
_NEEDED = (
    "spark-sql-kafka-0-10_",
    "spark-token-provider-kafka-",
    "kafka-clients-",
    "commons-pool2-",
)


def jars_folder(setting: str = "") -> Path:
    """Return the folder of the jars, whether it exists or not.

    Args:
        setting: `[audit] jars`; empty for the one in the user's cache.

    Raises:
        NotAvailable: it is to be in the home of a user without one.
    """
    if not setting:
        return cache_place() / f"audit-jars-{VERSION}"
    head, _, rest = setting.partition("/")
    return home_folder("[audit] jars") / rest if head == "~" else Path(setting).expanduser()


def find_jars(folder: Path) -> list[Path]:
    """Return the jars of a folder.

    Raises:
        NotAvailable: the folder or a jar that every run needs is missing; names the command that
            fetches them.
    """
    found = sorted(folder.glob("*.jar"))
    missing = [name for name in _NEEDED if not any(jar.name.startswith(name) for jar in found)]
    if missing:
        what = ", ".join(name.strip("-_") for name in missing)
        raise NotAvailable(
            f"Spark's jars ({what}) are not in {folder}: run `mvn -f {POM} "
            f"dependency:copy-dependencies -DoutputDirectory={folder}`"
        )
    return [jar.resolve() for jar in found]
