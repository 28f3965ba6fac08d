"""What can be said of `[audit] output` before Spark starts."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from feedback.errors import NotAvailable, SettingsError
from spark_audit.output.location import check_output, output_of, read_written, uri_of


@pytest.mark.parametrize("setting", ["file:///srv/audit", "file:/srv/audit", "/srv/audit/"])
def test_a_folder_of_this_machine_is_one_by_each_of_its_names(setting: str) -> None:
    check_output(setting, [])
    assert output_of(setting) == Path("/srv/audit")
    assert uri_of(output_of(setting)) == "file:///srv/audit"


def test_a_bucket_is_named_and_its_connector_is_there() -> None:
    with pytest.raises(SettingsError, match="names no bucket: s3a://BUCKET/"):
        check_output("s3a:///audit", [])
    with pytest.raises(NotAvailable, match=r"hadoop-aws is not among Spark's jars: .*-P s3a"):
        check_output("s3a://bucket/audit", [Path("kafka-clients-3.9.2.jar")])
    check_output("s3a://bucket/audit", [Path("hadoop-aws-3.5.0.jar")])
    # What `spark-submit` has, it alone knows.
    check_output("s3a://bucket/audit", None)


def test_hdfs_needs_no_host_and_no_jar() -> None:
    check_output("hdfs:///audit", [])


def test_what_was_written_and_is_nowhere_is_not_read_as_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.range(3).write.parquet(str(tmp_path / "there"))
    assert read_written(spark, tmp_path / "there", "id long").count() == 3
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotAvailable, match="empty has no files"):
        read_written(spark, tmp_path / "empty", "id long")
