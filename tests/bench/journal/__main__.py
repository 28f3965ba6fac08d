"""`python -m tests.bench.journal [--requests N] [--snapshot]`: measure, print, leave JSON."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass
from pathlib import Path

import psycopg

from consumer.journal.journal import Journal
from consumer.journal.leases import Leases
from consumer.journal.schema import migrate
from consumer.journal.tables import SCHEMA_VERSION
from tests.bench.journal.load import run
from tests.bench.journal.sizes import Counted, Server
from tests.bench.launching import ROOT
from tests.bench.measure.figures import percentile
from tests.bench.rows import write_json
from tests.eventually import eventually
from tests.stack import Stack
from tests.stack.postgres import dsn, fresh_database

OUTPUT = ROOT / "build" / "bench" / "journal.json"
GROUP, WORKER = "bench", "bench.example-4711-0123456789abcdef"
LEASE_S = 3600.0


@dataclass(frozen=True, slots=True)
class Row:
    """One measurement, by the names of docs: Files of figures.

    Attributes:
        layout: version of the tables, and what else stood in the way.
        hot_share: of the updates, those that touched no index; 1 is all.
    """

    layout: str
    requests: int
    wal_bytes_per_request: float
    hot_share: float
    heap_bytes: int
    index_bytes: int
    requests_per_s: float
    p99_ms: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.journal")
    parser.add_argument("--requests", type=int, default=100_000, help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    rows = []
    # A server of its own: what others write would count as ours.
    with Stack.start(kafka=False, redis=False, environ={}) as servers:
        for with_snapshot in (False, True):
            rows.append(_measured(servers.postgres, asked.requests, with_snapshot=with_snapshot))
            write_json(asked.output, [asdict(row) for row in rows])
            print(rows[-1], flush=True)
    return 0


def _measured(server_url: str, requests: int, *, with_snapshot: bool) -> Row:
    with ExitStack() as opened:
        url = opened.enter_context(fresh_database(server_url, "bench_journal"))
        migrate(url)
        journal = opened.enter_context(closing(Journal(url, group=GROUP, worker_id=WORKER)))
        leases = opened.enter_context(closing(Leases(url, group=GROUP, worker_id=WORKER)))
        leases.register(LEASE_S)
        server = opened.enter_context(closing(Server(url)))
        if with_snapshot:
            snapshot = opened.enter_context(psycopg.connect(dsn(url)))
            snapshot.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            snapshot.execute("SELECT count(*) FROM onceward_request")
        server.checkpoint()
        before = server.counted()
        done = run(journal, requests)
        after_wal = server.counted().wal_bytes
        journal.close()
        after = eventually(
            lambda: _complete(server, before, updates=2 * done.requests),
            timeout_s=60,
            what="the counters of a session that ended",
        )
        assert after is not None
        sizes = server.sizes()
    return Row(
        layout=f"schema {SCHEMA_VERSION}" + (", open snapshot" if with_snapshot else ""),
        requests=done.requests,
        wal_bytes_per_request=round((after_wal - before.wal_bytes) / done.requests, 1),
        hot_share=round((after.hot - before.hot) / (after.updates - before.updates), 4),
        heap_bytes=sizes.heap_bytes,
        index_bytes=sizes.index_bytes,
        requests_per_s=round(done.requests / done.seconds, 1),
        p99_ms=round(percentile(done.turn_ms, 99), 2),
    )


def _complete(server: Server, before: Counted, *, updates: int) -> Counted | None:
    now = server.counted()
    return now if now.updates - before.updates >= updates else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
