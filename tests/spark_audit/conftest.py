"""Spark, once for all tests of a process."""

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from spark_audit.session import open_session
from tests.spark_audit.jars import audit_jars
from tests.spark_audit.small import SMALL


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session, with the jars for Kafka and JDBC."""
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = open_session(master="local[2]", jars=audit_jars(), conf=SMALL | warehouse)
    yield session
    session.stop()
