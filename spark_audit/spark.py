"""Spark itself: its session, the jars that it needs, rows as frames, a sentence for each error."""

from __future__ import annotations

import json
import logging
import os
import pwd
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import AnalysisException, PySparkException, PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from feedback.errors import NotAvailable
from feedback.files import cache_place, home_folder


def ids_frame(spark: SparkSession, ids: Iterable[str]) -> DataFrame:
    """Return ids as a frame of one column, `request_id`."""
    return frame_of(spark, [(one,) for one in ids], "request_id string")


def frame_of(spark: SparkSession, rows: Iterable[Sequence[object]], schema: str) -> DataFrame:
    """Return rows as a frame.

    Spark's own `createDataFrame` hands them to a Python process beside each executor. It would be
    the only reason for a cluster's machines to have Python.

    Args:
        rows: of text, whole numbers, booleans and None.
        schema: as in "topic string, offset long".
    """
    names = [one.split()[0] for one in schema.split(", ")]
    text = json.dumps([dict(zip(names, row, strict=True)) for row in rows])
    parsed = F.from_json(F.lit(text), f"array<struct<{schema}>>", {"mode": "FAILFAST"})
    return spark.range(0, 1, numPartitions=1).select(F.inline(parsed))


# Spark's own version, as config/audit/pom.xml names it: the folder is called after it.
VERSION = "4.2.0"
POM = "config/audit/pom.xml"
# Every run needs these; a driver is needed when its kind of journal is read.
_NEEDED = (
    "spark-sql-kafka-0-10_",
    "spark-token-provider-kafka-",
    "kafka-clients-",
    "commons-pool2-",
)


def jars_folder(setting: str = "") -> Path:
    """Return the folder of the jars, whether it exists or not.

    Args:
        setting: `[audit] jars`; empty for the one in the user's cache.

    Raises:
        NotAvailable: it is to be in the home of a user without one.
    """
    if not setting:
        return cache_place() / f"audit-jars-{VERSION}"
    head, _, rest = setting.partition("/")
    return home_folder("[audit] jars") / rest if head == "~" else Path(setting).expanduser()


def find_jars(folder: Path) -> list[Path]:
    """Return the jars of a folder.

    Raises:
        NotAvailable: the folder or a jar that every run needs is missing; names the command that
            fetches them.
    """
    found = sorted(folder.glob("*.jar"))
    missing = [name for name in _NEEDED if not any(jar.name.startswith(name) for jar in found)]
    if missing:
        what = ", ".join(name.strip("-_") for name in missing)
        raise NotAvailable(
            f"Spark's jars ({what}) are not in {folder}: run `mvn -f {POM} "
            f"dependency:copy-dependencies -DoutputDirectory={folder}`"
        )
    return [jar.resolve() for jar in found]


NAME = "onceward-audit"
# Besides the settings that Spark hides by itself: a user's name and key for Kafka.
_SECRETS = "(?i)secret|password|token|access[.]?key|jaas|keystore"
_LONGEST = 400
# For Spark's Kafka consumers and the records that they fetched: how long they stay without use, and
# how often that is checked.
_KAFKA_LIMITS = tuple(
    f"spark.kafka.consumer.{kept}.{limit}"
    for kept in ("cache", "fetchedData.cache")
    for limit in ("timeout", "evictorThreadRunInterval")
)
_LOCAL = {
    # A laptop's own name may not resolve.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # It is made for throughput; Java's default is made for short pauses, and takes more of the
    # processor.
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    # A failure becomes a sentence, see `explained`: no stack trace for each task.
    "spark.log.level": "FATAL",
    # Nobody looks at its pages, and they would take a port.
    "spark.ui.enabled": "false",
    # Each task writes a file for each partition: 200, Spark's default, cost more than the data.
    "spark.sql.shuffle.partitions": "16",
}


def is_submitted() -> bool:
    """Say whether `spark-submit` has made the JVM already, with a master and jars of its own.

    In its cluster mode as well: there the same launcher starts this program, on another machine.
    """
    return "PYSPARK_GATEWAY_PORT" in os.environ


def open_session(
    *,
    master: str | None = "local[*]",
    jars: Sequence[Path] = (),
    conf: Mapping[str, str] | None = None,
    progress: bool = False,
) -> SparkSession:
    """Return the session: the one that `spark-submit` has made, if there is one.

    Args:
        master: where Spark runs; None leaves it to `spark-submit`.
        jars: for Kafka and JDBC.
        conf: settings of Spark that override the ones made here.
        progress: whether Spark draws its progress on the terminal.

    Raises:
        NotAvailable: Spark does not start, for example without Java, without its master, or for a
            user without a name.
    """
    _require_named_user()
    settings = _settings(master, jars, progress=progress)
    if _is_local(master):
        # Spark would take the first `python3` of the path, which may be another version. On other
        # machines there is nothing better to go by.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # It logs the end of its connection, which is normal.
    logging.getLogger("py4j").setLevel(logging.WARNING)
    builder = SparkSession.builder.appName(NAME)
    for name, value in (settings | dict(conf or {})).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise NotAvailable(
            f"Spark does not start ({_first_line(str(error))}): it needs Java 17 or later, on the "
            "PATH or in JAVA_HOME"
        ) from error
    except Py4JJavaError as error:
        raise NotAvailable(
            f"Spark does not start: {cause_of(error).rstrip('.')}; its own log says more. On a "
            "cluster, is its master there?"
        ) from error
    # Paths without a scheme are files of this machine, not of the cluster. This is set for the
    # session only: YARN needs its own default for the files that it hands out.
    session.conf.set("fs.defaultFS", "file:///")
    return session


def _require_named_user() -> None:
    """Refuse a user id without a name, as containers have: Hadoop's login in Java needs one.

    Raises:
        NotAvailable: there is none.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError as error:
        raise NotAvailable(
            f"Spark does not start: user {os.getuid()} has no name in this container; add "
            f"onceward:x:{os.getuid()}:0::/tmp:/bin/sh to /etc/passwd when the container starts"
        ) from error


def _settings(master: str | None, jars: Sequence[Path], *, progress: bool) -> dict[str, str]:
    settings = {
        # Days and hours are those of UTC, wherever it runs.
        "spark.sql.session.timeZone": "UTC",
        "spark.log.level": "WARN",
        "spark.redaction.regex": _SECRETS,
        "spark.ui.showConsoleProgress": str(progress).lower(),
        # The text of a query is cut: up to 100,000 ids may still be open.
        "spark.sql.maxPlanStringLength": "100000",
        # For Spark's own messages Python would tell Java, at each column, from which line it comes:
        # two fifths of all that the two say to each other during an audit.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Reading ahead takes memory outside the heap: 0.5 GB of 2 for 10 million requests.
        "spark.hadoop.parquet.hadoop.vectored.io.enabled": "false",
        # Java compiles no method with more bytes. Spark writes one method for a whole stage, up to
        # eight times as long, and it would be interpreted. Reading Kafka costs half with this.
        "spark.sql.codegen.hugeMethodLimit": "8000",
        # Each query has consumers of its own. The records fetched ahead stay in the heap until they
        # are closed: by default after five minutes.
        **dict.fromkeys(_KAFKA_LIMITS, "5s"),
    }
    if jars:
        settings["spark.jars"] = ",".join(map(str, jars))
    if master is not None:
        settings["spark.master"] = master
    if _is_local(master):
        settings |= _LOCAL
    return settings


def _is_local(master: str | None) -> bool:
    return master == "local" or (master or "").startswith("local[")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn a failure of Spark or of the disk into one sentence.

    A query of ours that Spark does not understand is a fault of this program and passes unchanged.

    Args:
        what: names the failed step, as in "Kafka cannot be read".

    Raises:
        NotAvailable: `what`, and the first line of the deepest cause.
    """
    try:
        yield
    except AnalysisException as error:
        # Spark reports missing files and rights as this, too.
        if "Failed to find data source" in str(error):
            raise NotAvailable(
                f"{what}: Spark was given no jar for it; give those of config/audit/pom.xml to "
                "spark-submit by --jars"
            ) from error
        if "FAILED_JDBC" not in str(error):
            raise
        raise NotAvailable(f"{what}: {cause_of(error)}") from error
    except (Py4JJavaError, PySparkException) as error:
        raise NotAvailable(f"{what}: {cause_of(error)}") from error
    except OSError as error:
        raise NotAvailable(f"{what}: {error.strerror or type(error).__name__}") from error


def cause_of(error: Py4JJavaError | PySparkException) -> str:
    """Return the first line of the deepest cause."""
    thrown: Any = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if thrown is None:
        return _first_line(str(error))
    while (deeper := thrown.getCause()) is not None:
        thrown = deeper
    message = thrown.getMessage()
    name = str(thrown.getClass().getSimpleName())
    return _first_line(str(message)) if message else name


def _first_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[0][:_LONGEST] if lines else "no reason is given"
