"""Whether all machines of a cluster write into the same folder.

Executors write Parquet, the driver reads it again. Where each has a folder of its own under the
same name, Spark does not miss the files of the others: it would be a day with few requests.
"""

from __future__ import annotations

import uuid
from contextlib import suppress

from pyspark.sql import SparkSession

from feedback.errors import NotAvailable
from spark_audit.output.location import Location, uri_of
from spark_audit.output.outputs import remove

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
