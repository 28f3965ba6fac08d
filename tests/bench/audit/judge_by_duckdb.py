"""`python -m tests.bench.audit.judge_by_duckdb SNAPSHOT TARGET`: the judgement by DuckDB."""

import sys
from pathlib import Path

from spark_audit.stage.manifest import Manifest
from spark_audit.stage.snapshot import Snapshot
from tests.spark_audit.judge import duck

if __name__ == "__main__":
    snapshot, target = Snapshot(Path(sys.argv[1])), sys.argv[2]
    with duck.opened(snapshot.folder, Manifest.read(snapshot.manifest)) as connection:
        sql = duck.SQL.replace("ORDER BY request_id", "")
        connection.execute(f"COPY ({sql}) TO '{target}' (FORMAT parquet, COMPRESSION snappy)")
