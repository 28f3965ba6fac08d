"""Where `[audit] output` lies: in a folder of this machine, or where Hadoop leads.

`s3a://bucket/audit`, `hdfs://name-node/audit` and any other scheme that Spark has a connector for
are Hadoop's; `file:///audit` is the folder `/audit`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol, Self, cast
from urllib.parse import urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from feedback.errors import NotAvailable, SettingsError
from spark_audit.output.hadoop_path import HadoopPath
from spark_audit.spark import POM


class Size(Protocol):
    """How long a file is."""

    @property
    def st_size(self) -> int:
        """Its bytes."""


class Location(Protocol):
    """A file or folder of the output, there or not, by the words of `pathlib.Path` that the audit
    reads with. `outputs` writes.

    Every method may raise OSError.
    """

    @property
    def name(self) -> str:
        """The last part."""

    @property
    def parent(self) -> Self:
        """The folder that it lies in."""

    def __truediv__(self, name: str, /) -> Self: ...

    def exists(self) -> bool:
        """Whether it is there."""

    def is_file(self) -> bool:
        """Whether it is there as a file."""

    def is_dir(self) -> bool:
        """Whether it is there as a folder."""

    def stat(self) -> Size:
        """Return how long a file is."""

    def iterdir(self) -> Iterator[Self]:
        """Yield the files and folders of a folder."""

    def glob(self, pattern: str, /) -> Iterator[Self]:
        """Yield the files and folders whose names are like this; nothing where there is no
        folder."""

    def read_text(self, encoding: str = "utf-8") -> str:
        """Return a file's text."""


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
# Of these the host may be left out.
_OF_THE_CLUSTER = ("hdfs", "viewfs")
# By scheme, how the file of its connector begins, and how it is fetched.
_CONNECTORS = {
    "s3a": (
        "hadoop-aws-",
        f"`mvn -f {POM} -P s3a dependency:copy-dependencies -DoutputDirectory=FOLDER`",
    )
}


def is_hadoop(setting: str) -> bool:
    """Return whether an output is asked for from Hadoop, by Spark's Java.

    >>> [is_hadoop(one) for one in ("audit/", "/srv/audit", "file:///audit", "s3a://b/audit")]
    [False, False, False, True]
    """
    return bool(_SCHEME.match(setting)) and not setting.lower().startswith("file:")


def check_output(setting: str, jars: Sequence[Path] | None) -> None:
    """Return when an output may be asked for: all that can be said of it without Spark.

    Args:
        jars: that Spark will have; None when `spark-submit` knows them.

    Raises:
        SettingsError: it names no bucket or host.
        NotAvailable: the connector for it is not among the jars.
    """
    if not is_hadoop(setting):
        return
    parts = urlsplit(setting)
    if not parts.netloc and parts.scheme not in _OF_THE_CLUSTER:
        raise SettingsError(f"[audit] output {setting} names no bucket: {parts.scheme}://BUCKET/…")
    name, how = _CONNECTORS.get(parts.scheme, ("", ""))
    if name and jars is not None and not any(one.name.startswith(name) for one in jars):
        raise NotAvailable(
            f"[audit] output {setting}: {name.strip('-')} is not among Spark's jars: fetch it into "
            f"their folder, by {how}"
        )


def output_of(setting: str, spark: SparkSession | None = None) -> Location:
    """Return where an output lies, there or not.

    Args:
        spark: by which Hadoop is asked; not needed for a local folder.

    Raises:
        NotAvailable: Spark has no connector for it, or the settings of that do not do.
    """
    if not is_hadoop(setting):
        return Path(re.sub("^[Ff][Ii][Ll][Ee]:/+", "/", setting)).absolute()
    if spark is None:
        raise NotAvailable(f"{setting} is not to be had without Spark")
    try:
        return HadoopPath.of(spark, setting)
    except OSError as error:
        raise NotAvailable(f"[audit] output {setting}: {error.strerror}") from error


def local(place: Location) -> Path:
    """Return a place of this machine as a local path."""
    return cast(Path, place)


def uri_of(place: Location) -> str:
    """Return the URI of a place, which Spark understands whatever its default file system."""
    if isinstance(place, Path):
        # Not `as_uri`: Hadoop would take its percent signs for parts of the name.
        return f"file://{place.absolute()}"
    return str(place)


def read_written(spark: SparkSession, folder: Location, schema: str | StructType) -> DataFrame:
    """Return Parquet that this run has written.

    Without its schema Spark would look into a file, by a job for each frame.

    Raises:
        NotAvailable: there is none of it: an empty folder would be a day without requests.
    """
    if not any(True for _ in folder.glob("*.parquet")):
        raise NotAvailable(f"{folder} has no files, though they were written a moment ago")
    return spark.read.schema(schema).parquet(uri_of(folder))
