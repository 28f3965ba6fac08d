"""Spark and the output folder, as the settings name them, for a command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from feedback.settings.sections import AuditSection
from spark_audit.output.location import Location, check_output, is_hadoop, output_of
from spark_audit.spark import find_jars, is_submitted, jars_folder, open_session


def jars_for(settings: AuditSection) -> Sequence[Path]:
    """Return the jars that Spark is to be given: none where `spark-submit` gives it its own.

    Raises:
        SettingsError: the output names no bucket.
        NotAvailable: a jar is missing that every run needs, or that of the output's connector.
    """
    jars = () if is_submitted() else find_jars(jars_folder(settings.jars))
    check_output(settings.output, None if is_submitted() else jars)
    return jars


@contextmanager
def session_of(
    settings: AuditSection, jars: Sequence[Path], *, progress: bool = False
) -> Iterator[SparkSession]:
    """Yield Spark's session, which ends with the block.

    Raises:
        NotAvailable: Spark does not start.
    """
    spark = open_session(
        master=None if is_submitted() else settings.spark_master,
        jars=jars,
        conf=settings.spark_conf,
        progress=progress,
    )
    try:
        yield spark
    finally:
        spark.stop()


@contextmanager
def output_folder(settings: AuditSection) -> Iterator[Location]:
    """Yield the output folder, there or not; where Hadoop leads, Spark starts for it."""
    if not is_hadoop(settings.output):
        yield output_of(settings.output)
        return
    with session_of(settings, jars_for(settings)) as spark:
        yield output_of(settings.output, spark)
