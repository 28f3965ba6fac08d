"""Output folders on file systems of Hadoop's, for tests.

Its own local one goes under another name: a URI of `file:` would be the folder of this machine,
without Hadoop.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from pyspark.sql import SparkSession

from spark_audit.output.location import Location
from tests.stack.s3 import S3


def mounted(spark: SparkSession, folder: Path) -> str:
    """Return the URI by which Hadoop's local file system writes into a folder."""
    name = f"test{uuid.uuid4().hex}"
    folder.mkdir(parents=True, exist_ok=True)
    _configure(spark, {f"fs.viewfs.mounttable.{name}.link./audit": f"file://{folder}"})
    return f"viewfs://{name}/audit"


def in_bucket(spark: SparkSession, s3: S3, **settings: str) -> str:
    """Return the URI of a folder in a new bucket.

    Args:
        settings: of Hadoop's connector for it, by the names after `fs.s3a.`, with `_` for a dot.
    """
    name = f"test-{uuid.uuid4().hex}"
    s3.make_bucket(name)
    told = s3a_settings(s3) | {one.replace("_", "."): value for one, value in settings.items()}
    _configure(spark, {f"fs.s3a.bucket.{name}.{key}": value for key, value in told.items()})
    return f"s3a://{name}/audit"


def s3a_settings(s3: S3) -> dict[str, str]:
    """Return what Hadoop's connector is told of a server, by the names after `fs.s3a.`."""
    return {
        "endpoint": s3.address,
        "endpoint.region": "us-east-1",
        "path.style.access": "true",
        "access.key": s3.key,
        "secret.key": s3.secret,
    }


def runs_of(folder: Location) -> list[str]:
    """Return the runs of a day's folder of which there is a file.

    Once in some sixty removals S3Proxy leaves an empty folder of Spark's `_temporary`, and then
    for ever: it has folders, where S3 has names.
    """
    return [run.name for run in folder.iterdir() if any(_files(run))]


def _files(place: Location) -> Iterator[Location]:
    if place.is_file():
        yield place
    elif place.is_dir():
        for one in place.iterdir():
            yield from _files(one)


def _configure(spark: SparkSession, settings: dict[str, str]) -> None:
    conf = cast(Any, spark)._jsc.hadoopConfiguration()
    for name, value in settings.items():
        conf.set(name, value)
