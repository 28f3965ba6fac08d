"""Spark, once for all tests of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_audit.session import open_session
from tests.spark_audit.jars import audit_jars

# Small frames: what Spark does to be fast with large ones takes longer than the work.
SMALL = {
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session, with the jars for Kafka and JDBC."""
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = open_session(master="local[2]", jars=audit_jars(), conf=SMALL | warehouse)
    yield session
    session.stop()
