"""The audit of a day that lies on the disk: the whole command, and the judgement by each engine."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from feedback.errors import ExitCode
from feedback.records.stored_payload import StoredPayload
from feedback.redis.server import connect
from feedback.redis.store import StatusStore
from feedback.settings.settings import RedisSection
from spark_audit.stage.snapshot import Snapshot
from tests.bench.audit import generated
from tests.bench.audit.measured import Watched, watch
from tests.bench.errors import BenchError
from tests.stack import Servers

LIMIT_S = 1800.0
ENGINES = ("spark", "duckdb")


@dataclass(frozen=True, slots=True)
class Generated:
    """A day on the disk.

    Args:
        output: `[audit] output`.
        findings: how many of each the audit must name.
    """

    output: Path
    requests: int
    findings: Mapping[str, int]

    @property
    def snapshot(self) -> Snapshot[Path]:
        """What the judges read."""
        return Snapshot.of(self.output, generated.DATE)


@contextmanager
def day(requests: int, servers: Servers, folder: Path) -> Iterator[Generated]:
    """Yield a day of so many requests; payloads of the lost ones are kept in Redis."""
    output = folder / f"day-{requests}"
    settings = RedisSection(url=servers.redis)
    store = StatusStore(connect(settings), generated.GROUP, settings)
    kept = StoredPayload(generated.TOPIC, key=b"k", value=b"{}").encode()
    try:
        findings = generated.generate(output, requests)
        for request_id in generated.lost_ids(output):
            store.redis.set(store.payload_key(request_id), kept)
        yield Generated(output, requests, findings)
    finally:
        store.close()
        shutil.rmtree(output, ignore_errors=True)


def run(made: Generated, servers: Servers) -> Watched:
    """Measure `onceward-audit run` on a day's snapshot, outputs written.

    Raises:
        BenchError: it did not name exactly what was planted.
    """
    for name in ("judged", "findings", "reports"):
        shutil.rmtree(made.output / name, ignore_errors=True)
    log = made.output / "run.log"
    took = watch(
        (sys.executable, "-m", "spark_audit", "run", "--date", generated.DATE),
        environ={**os.environ, **_settings(made, servers)},
        log=log,
        timeout_s=LIMIT_S,
        # Something was lost: that is its answer.
        codes=(ExitCode.BAD_ANSWER,),
    )
    summary = made.output / "reports" / f"date={generated.DATE}" / "summary.json"
    found = json.loads(summary.read_text(encoding="utf-8"))["counts"]["findings"]
    named = {kind: count for kind, count in found.items() if count}
    if named != made.findings:
        raise BenchError(f"planted {dict(made.findings)}, named {named}")
    return took


def judge(made: Generated, engine: str) -> Watched:
    """Measure the judgement alone: the same Parquet in, the flags of each request out."""
    target = made.output / f"judged-by-{engine}"
    if target.is_dir():
        shutil.rmtree(target)
    return watch(
        (
            *(sys.executable, "-m", f"tests.bench.audit.judge_by_{engine}"),
            *(str(made.snapshot.folder), str(target)),
        ),
        environ=os.environ,
        log=made.output / f"{engine}.log",
        timeout_s=LIMIT_S,
    )


def _settings(made: Generated, servers: Servers) -> dict[str, str]:
    return {
        **servers.settings(),
        "ONCEWARD_KAFKA__GROUP": generated.GROUP,
        "ONCEWARD_AUDIT__TOPICS": json.dumps([generated.TOPIC]),
        "ONCEWARD_AUDIT__OUTPUT": str(made.output),
    }
