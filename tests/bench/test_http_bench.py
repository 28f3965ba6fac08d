"""The benchmark of the front door, small."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench.launching import ROOT
from tests.stack import Servers


# It says whether the measuring works, and measures for half a minute.
@pytest.mark.long
def test_each_case_leaves_a_row_without_a_wrong_answer(servers: Servers, tmp_path: Path) -> None:
    small = "--seconds 1.5 --connections 4 --streams 20"
    ended = subprocess.run(
        (sys.executable, "-m", "tests.bench.http", "--output", tmp_path, *small.split()),
        cwd=ROOT,
        env=os.environ | servers.settings(),
        capture_output=True,
        text=True,
        timeout=150,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    rows = {row["case"]: row for row in json.loads((tmp_path / "http.json").read_text())}
    assert [*rows] == ["submit", "status", "rate-100", "streams"]
    for row in rows.values():
        assert row["wrong"] == 0
        assert 0 < row["p50_ms"] <= row["p99_ms"]
        assert row["rss_mib"] > 10
    assert rows["streams"]["requests_per_s"] is None
    assert min(rows[name]["requests_per_s"] for name in ("submit", "status", "rate-100")) > 0
    parts = json.loads((tmp_path / "http-parts.json").read_text())["rows"]
    assert {"door", "load", "broker", "redis"} <= {one["part"] for one in parts}
