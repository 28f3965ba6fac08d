"""Spark, and an object store, once for all tests of a process."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_audit.spark import open_session
from tests.spark_audit.hadoop import in_bucket, mounted
from tests.spark_audit.interrupted import close_connection
from tests.spark_audit.jars import S3A, audit_jars
from tests.spark_audit.members import members_remembered
from tests.spark_audit.small import SMALL
from tests.stack.s3 import S3, s3_server

HERE = Path(__file__).parent
# These tests stand back when others want the processors (`tests.lanes`): 40 s alone were 241 s
# beside them. A limit is there for a test that hangs, so it takes that into account.
LANE_FACTOR = 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Give each test here the time that its place behind the other lane costs."""
    for item in items:
        if item.path.is_relative_to(HERE):
            own = item.get_closest_marker("timeout")
            limit_s = float(own.args[0] if own else config.getini("timeout"))
            item.add_marker(pytest.mark.timeout(LANE_FACTOR * limit_s), append=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a test that was interrupted spoil no other one: its answer from Java is still to come."""
    if call.excinfo is not None and "spark" in getattr(item, "fixturenames", ()):
        close_connection()
    return (yield)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Yield a session, with the jars for Kafka, JDBC and S3."""
    warehouse = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse"))}
    session = open_session(master="local[2]", jars=audit_jars(profile=S3A), conf=SMALL | warehouse)
    with members_remembered():
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
