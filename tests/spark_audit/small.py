"""Settings of Spark for tests."""

from tests.spark_audit.classes import classes_file

# Small frames: what Spark does to be fast with large ones takes longer than the work.
COMPILED = {
    "spark.driver.extraJavaOptions": (
        f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:SharedArchiveFile={classes_file()}"
    ),
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
}
# Its expressions are interpreted: to compile them takes a fifth of the time of such tests.
SMALL = COMPILED | {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
