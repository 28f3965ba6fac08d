"""`python -m tests.bench.audit.judge_by_spark SNAPSHOT OUTPUT`: the judgement alone, by Spark."""

import sys
from pathlib import Path

from feedback.settings.settings import Settings
from spark_audit.judge.judged_day import judge_day
from spark_audit.output.paths import DayPaths
from spark_audit.spark import open_session
from spark_audit.stage.manifest import Manifest
from spark_audit.stage.snapshot import Snapshot

if __name__ == "__main__":
    settings = Settings().audit
    snapshot, output = Snapshot(Path(sys.argv[1])), Path(sys.argv[2])
    manifest = Manifest.read(snapshot.manifest)
    places = DayPaths(output, manifest.date)
    spark = open_session(master=settings.spark_master)
    judge_day(spark, snapshot, manifest, places, samples=settings.statuses)
    spark.stop()
