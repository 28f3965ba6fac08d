"""The jars: where they are looked for, and what is said when they are not there."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from feedback.errors import NotAvailable
from spark_audit.spark import VERSION, find_jars, jars_folder
from tests.spark_audit.jars import POM, audit_jars

NEEDED = (
    "spark-sql-kafka-0-10_2.13-4.2.0.jar",
    "spark-token-provider-kafka-0-10_2.13-4.0.0.jar",
    "kafka-clients-3.9.2.jar",
    "commons-pool2-2.13.1.jar",
)


def test_the_folder_is_called_after_the_version_that_the_pom_names() -> None:
    assert ElementTree.parse(POM).findtext(".//{*}spark.version") == VERSION


def test_the_cache_of_the_user_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache")
    assert jars_folder() == Path(f"/var/cache/onceward/audit-jars-{VERSION}")
    assert jars_folder("/opt/jars") == Path("/opt/jars")


def test_a_missing_folder_is_answered_with_the_command_that_fills_it(tmp_path: Path) -> None:
    folder = tmp_path / "missing"
    with pytest.raises(NotAvailable, match=r"mvn -f .*pom.xml .*copy-dependencies") as raised:
        find_jars(folder)
    assert f"-DoutputDirectory={folder}" in str(raised.value)


@pytest.mark.parametrize("left_out", NEEDED)
def test_each_jar_that_every_run_needs_is_missed_by_name(tmp_path: Path, left_out: str) -> None:
    for name in NEEDED:
        if name != left_out:
            (tmp_path / name).touch()
    with pytest.raises(NotAvailable) as raised:
        find_jars(tmp_path)
    named = str(raised.value).partition("(")[2].partition(")")[0]
    assert left_out.startswith(named)


def test_what_the_pom_fetches_is_all_that_is_needed() -> None:
    names = {jar.name for jar in audit_jars()}
    assert names >= {*NEEDED, "postgresql-42.7.8.jar", "sqlite-jdbc-3.50.3.0.jar"}
    assert len(names) == 6
