"""Spark's classes as a JVM holds them, written once: tests start Spark in half the time.

They lie in the virtual environment, because they are good for the jars of its pyspark only. A JVM
that they do not fit, as after an update of Java, goes on without them.
"""

import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from onceward.servers.cache import only_one
from onceward.servers.errors import StackError

WRITE_LIMIT_S = 300.0
_QUERIES = """
import sys
from pyspark.sql import SparkSession, functions as f
spark = SparkSession.builder.getOrCreate()
rows = spark.createDataFrame([(1, "a", None), (2, "b", "c")], "n long, name string, other string")
rows.write.parquet(sys.argv[1])
read = spark.read.parquet(sys.argv[1])
joined = read.join(rows, "n", "left").groupBy(read.name).agg(f.sum("n"), f.count("*"))
joined.orderBy("name").collect()
spark.stop()
"""


def classes_file() -> Path:
    """Return the file of Spark's classes, there or not."""
    return Path(sys.prefix) / "spark-classes.jsa"


def without_yarn() -> str:
    """Return the JVM's option that hides YARN's 527 defaults from Hadoop.

    They would be half of all that Spark's driver writes, and its tasks read, for each query.
    """
    jar = Path(sys.prefix) / "spark-without-yarn.jar"
    # Never made anew: classes that were written beside it are good for this one only.
    if not jar.exists():
        part = jar.with_suffix(f".{os.getpid()}")
        with ZipFile(part, "w") as made:
            made.writestr("yarn-default.xml", "<configuration/>")
        part.rename(jar)
    return f"-Xbootclasspath/a:{jar}"


def write_classes() -> bool:
    """Have a JVM write the classes of some queries, unless they are there; say whether it had to.

    The file appears whole or not at all, and of two runs that start together one writes it.

    Raises:
        StackError: Spark failed, or left nothing.
    """
    target = classes_file()
    if target.exists():
        return False
    with only_one(target.with_suffix(".lock")), tempfile.TemporaryDirectory() as folder:
        if target.exists():
            return False
        part = target.with_suffix(".part")
        script = Path(folder) / "queries.py"
        script.write_text(_QUERIES)
        options = f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {without_yarn()}"
        options += f" -XX:ArchiveClassesAtExit={part}"
        conf = {"spark.driver.extraJavaOptions": options, "spark.ui.enabled": "false"}
        settings = [word for pair in conf.items() for word in ("--conf", "=".join(pair))]
        command = (_submit(), "--master", "local[1]", *settings, script, f"{folder}/rows")
        done = subprocess.run(
            [str(word) for word in command],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=WRITE_LIMIT_S,
        )
        if done.returncode or not part.exists():
            last = "\n".join(done.stdout.splitlines()[-20:])
            raise StackError(f"Spark did not write its classes (code {done.returncode})", last)
        part.rename(target)
    return True


def _submit() -> Path:
    found = find_spec("pyspark")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "bin" / "spark-submit"
