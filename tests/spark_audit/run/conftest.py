"""The scene, on each kind of journal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark_audit.run.scene import Scene
from tests.spark_audit.stage.journal import HandWritten
from tests.stack import Servers


@pytest.fixture
def scene(
    spark: SparkSession,
    servers: Servers,
    topic: Callable[..., str],
    journal_url: str,
    group: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Scene:
    """Return a day that is over, and audited by nobody yet."""
    for name in servers.settings():
        # The environment would win over what a test asks for.
        monkeypatch.delenv(name, raising=False)
    made = Scene(spark, servers, topic(1), HandWritten(journal_url, group), tmp_path / "audit")
    made.send()
    made.fill_journal()
    return made
