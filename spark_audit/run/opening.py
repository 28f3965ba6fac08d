"""Spark and the output folder, as the settings name them, for a command; all machines share it.

Executors write Parquet, the driver reads it again. Where each has a folder of its own under the
same name, Spark does not miss the files of the others: it would be a day with few requests.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark.sql import SparkSession

from feedback.errors import NotAvailable
from feedback.settings.sections import AuditSection
from spark_audit.output.location import Location, check_output, is_hadoop, output_of, uri_of
from spark_audit.output.outputs import remove
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


# More than one for each core, so that every executor gets one.
_FILES_PER_CORE = 4


def require_shared(spark: SparkSession, output: Location) -> None:
    """Let every executor that is there write a file, and count them here.

    Raises:
        NotAvailable: some are not here; nothing that is written there can be trusted.
    """
    if str(spark.sparkContext.master).startswith("local"):
        return
    written = _FILES_PER_CORE * max(2, spark.sparkContext.defaultParallelism)
    folder = output / f".shared-{uuid.uuid4().hex}"
    try:
        # A row each, since of a part without rows no file is written.
        spark.range(0, written, numPartitions=written).write.parquet(uri_of(folder))
        seen = sum(1 for _ in folder.glob("part-*"))
    finally:
        with suppress(OSError):
            remove(folder)
    if seen < written:
        raise NotAvailable(
            f"{output} is not the same folder on all machines of the cluster: its executors wrote "
            f"{written} files, and {seen} of them are seen here; let [audit] output name a folder "
            "that all of them share"
        )
