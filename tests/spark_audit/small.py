"""Settings of Spark for tests."""

from tests.spark_audit.classes import classes_file

# Small frames: what Spark does to be fast with large ones takes longer than the work.
SMALL = {
    "spark.driver.extraJavaOptions": (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={classes_file()}"
    ),
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.adaptive.enabled": "false",
}
