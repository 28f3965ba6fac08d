"""The driver's own rows as a frame."""

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from spark_audit.spark import frame_of

SCHEMA = "name string, number long, small int, is_so boolean"


def test_each_row_comes_back_as_it_was(spark: SparkSession) -> None:
    given = [
        ("quotes \" ' and \\ and </script>", 2**62, -1, True),
        ("é\u2028\n\x00", -(2**63), 2**31 - 1, False),
        (None, None, None, None),
    ]
    frame = frame_of(spark, given, SCHEMA)
    assert [tuple(row) for row in frame.collect()] == given
    assert frame.dtypes == [
        ("name", "string"),
        ("number", "bigint"),
        ("small", "int"),
        ("is_so", "boolean"),
    ]


def test_no_rows_are_an_empty_frame_with_its_columns(spark: SparkSession) -> None:
    frame = frame_of(spark, [], SCHEMA)
    assert frame.columns == ["name", "number", "small", "is_so"]
    assert frame.collect() == []


@pytest.mark.long
def test_a_hundred_thousand_ids_are_joined_as_they_are(spark: SparkSession) -> None:
    frame = frame_of(
        spark, ((f"{number:0128d}",) for number in range(100_000)), "request_id string"
    )
    made = spark.range(100_000).select(F.lpad(F.col("id").cast("string"), 128, "0"))
    assert frame.join(made.toDF("request_id"), "request_id").count() == 100_000
