"""Spark's session: what is said when it cannot be made, or was given no jar."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from py4j.clientserver import JavaClient  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.kit.settings import environment

ROOT = Path(__file__).parents[3]
LIMIT_S = 150.0
# An address for examples, which no machine has.
NOT_OURS = "203.0.113.1"
_WITHOUT_JARS = """
from spark_audit.spark import explained, open_session

spark = open_session(master="local[1]")
with explained("the records cannot be read"):
    spark.read.format("kafka").load()
"""


def _python(*arguments: str, **settings: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        (sys.executable, *arguments),
        cwd=ROOT,
        env=environment(**settings),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )


def test_a_session_that_cannot_be_made_is_one_sentence() -> None:
    conf = {"spark.driver.bindAddress": NOT_OURS, "spark.port.maxRetries": "0"}
    opened = f"from spark_audit.spark import open_session\nopen_session(conf={conf})"
    done = _python("-c", opened)
    last = done.stderr.splitlines()[-2]
    assert last.startswith("feedback.errors.NotAvailable: Spark does not start: "), last
    assert "Cannot assign requested address" in last


def test_spark_without_the_jars_is_told_by_which_option_they_come() -> None:
    done = _python("-c", _WITHOUT_JARS)
    last = done.stderr.splitlines()[-2]
    assert last.startswith("feedback.errors.NotAvailable: the records cannot be read: "), last
    assert "--jars" in last


def test_java_is_told_of_a_column_and_not_from_which_line_it_comes(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands: list[str] = []
    send = JavaClient.send_command

    def listening(client: Any, command: str, *arguments: Any, **named: Any) -> str:
        commands.append(command)
        return str(send(client, command, *arguments, **named))

    monkeypatch.setattr(JavaClient, "send_command", listening)
    spark.range(1).select(F.col("id") + 1)
    told = "".join(commands)
    assert "functions" in told
    assert "PySparkCurrentOrigin" not in told
