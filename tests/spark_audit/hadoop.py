"""An output folder on a file system of Hadoop's, for tests: its own local one under another name.

A URI of `file:` would be the folder of this machine, without Hadoop.
"""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession


def mounted(spark: SparkSession, folder: Path) -> str:
    """Return the URI by which Hadoop's local file system writes into a folder."""
    name = f"test{uuid.uuid4().hex}"
    folder.mkdir(parents=True, exist_ok=True)
    conf = cast(Any, spark)._jsc.hadoopConfiguration()
    conf.set(f"fs.viewfs.mounttable.{name}.link./audit", f"file://{folder}")
    return f"viewfs://{name}/audit"
