"""Spark, and an object store, once for all tests of a process."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from spark_audit.spark.session import open_session
from tests.spark_audit.hadoop import in_bucket, mounted
from tests.spark_audit.jars import S3A, audit_jars
from tests.spark_audit.small import SMALL
from tests.stack.s3 import S3, s3_server


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session, with the jars for Kafka, JDBC and S3."""
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = open_session(master="local[2]", jars=audit_jars(profile=S3A), conf=SMALL | warehouse)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """Yield an S3-compatible server."""
    with s3_server() as server:
        yield server


@pytest.fixture(params=["local", "s3a"])
def hadoop_output(request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path) -> str:
    """Return an empty `[audit] output`: by Hadoop's own local file system, and in a bucket."""
    if request.param == "local":
        return mounted(spark, tmp_path / "audit")
    return in_bucket(spark, request.getfixturevalue("s3"))
