"""Settings of Spark for tests."""

from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from tests.spark_audit.classes import classes_file, without_yarn

# Small frames: what Spark does to be fast with large ones takes longer than the work.
COMPILED = {
    # The room for compiled code is small where only the first tier compiles: Java would throw code
    # away and compile it again, for as long as a session of tests lasts.
    "spark.driver.extraJavaOptions": (
        "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=200m -XX:+UseSerialGC "
        f"-XX:SharedArchiveFile={classes_file()} {without_yarn()} "
        # A warning, as of an archive of other jars, is not to stand in what a command prints.
        "-Xlog:disable -Xlog:all=warning:stderr"
    ),
    # Of each query Spark writes down all of its plans, for pages that nobody opens.
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "100",
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
}
# Its expressions are interpreted: to compile them takes a fifth of the time of such tests.
_INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
SMALL = COMPILED | _INTERPRETED


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Let Spark compile its expressions in this block, as it does for a user."""
    for name in _INTERPRETED:
        spark.conf.unset(name)
    try:
        yield
    finally:
        for name, value in _INTERPRETED.items():
            spark.conf.set(name, value)
