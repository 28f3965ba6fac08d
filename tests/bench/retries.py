"""`python -m tests.bench.retries`: what requests that are retried cost those that are not.

10,000 no-op requests wait in the topic when the worker starts. In one run all succeed, in the
other every tenth fails twice; compared is when the last of the same 9,000 others has ended.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from kafka import KafkaProducer
from sqlalchemy import create_engine, text

from onceward.servers.errors import tail
from tests.bench.errors import BenchError
from tests.bench.launching import ROOT, running
from tests.bench.retried_handlers import FAILING
from tests.bench.rows import write_json
from tests.bench.systems import onceward
from tests.eventually import eventually
from tests.stack import Servers, Stack

REQUESTS = 10_000
EACH = 10
DONE_WITHIN_S = 120.0
HANDLERS = "tests.bench.retried_handlers"
OUTPUT = ROOT / "build" / "bench" / "retries.json"

_ENDED = text("SELECT count(*) FROM onceward_request WHERE state = 'SUCCEEDED'")
_OTHERS = text(
    "SELECT count(*), min(claimed_at), max(finished_at) FROM onceward_request "
    "WHERE request_id LIKE 'other-%'"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One pair of runs.

    Attributes:
        others_per_s, alone_per_s: throughput of the 9,000, beside failures and without.
        share: the first over the second.
    """

    journal: str
    round: int
    others_per_s: float
    alone_per_s: float
    share: float


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.retries", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="default: %(default)s")
    parser.add_argument("--journals", default="sqlite,postgres", help="default: %(default)s")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    journals = asked.journals.split(",")
    rows: list[Row] = []
    with Stack.start() as servers:
        for number in range(1, asked.rounds + 1):
            for journal in journals:
                alone_per_s = others_per_s(servers, journal=journal, failing=False)
                beside_per_s = others_per_s(servers, journal=journal, failing=True)
                share = beside_per_s / alone_per_s
                rows.append(Row(journal, number, beside_per_s, alone_per_s, share))
                write_json(asked.output, [asdict(row) for row in rows])
                print(
                    f"round {number}, {journal}: others {beside_per_s:.0f}/s beside failures, "
                    f"{alone_per_s:.0f}/s without: {share:.0%}",
                    flush=True,
                )
    for journal in journals:
        shares = [row.share for row in rows if row.journal == journal]
        print(f"{journal}: median {statistics.median(shares):.0%}")
    return 0


def others_per_s(servers: Servers, *, journal: str, failing: bool) -> float:
    """Return the throughput of the requests that never fail.

    Raises:
        BenchError: not all requests succeeded in time; ends with the worker's log.
    """
    with tempfile.TemporaryDirectory(prefix="retries-") as name, ExitStack() as opened:
        folder = Path(name)
        topic = opened.enter_context(onceward.fresh_topic(servers.kafka))
        url = opened.enter_context(onceward.fresh_journal(servers, journal, folder))
        environ = onceward.environment(servers, url, topic=topic, handlers=HANDLERS)
        onceward.migrate(environ, folder)
        _fill(servers.kafka, topic, failing=failing)
        engine = create_engine(url)
        opened.callback(engine.dispose)
        log = folder / "worker.log"

        def all_ended() -> bool:
            with engine.connect() as connection:
                return bool(connection.execute(_ENDED).scalar_one() == REQUESTS)

        with running(onceward.WORKER, environ=environ, log=log):
            try:
                eventually(all_ended, timeout_s=DONE_WITHIN_S, interval_s=0.5, what="all ended")
            except TimeoutError as error:
                raise BenchError(f"{error}\n{tail(log)}") from error
        with engine.connect() as connection:
            count, first_ms, last_ms = connection.execute(_OTHERS).one()
    return float(1000 * count / (last_ms - first_ms))


def _fill(bootstrap_servers: str, topic: str, *, failing: bool) -> None:
    with KafkaProducer(bootstrap_servers=bootstrap_servers, linger_ms=20) as producer:
        sent = []
        for number in range(REQUESTS):
            fails = number % EACH == 0
            request_id = f"{'tenth' if fails else 'other'}-{number}"
            sent.append(
                producer.send(
                    topic,
                    value=FAILING if fails and failing else b"{}",
                    headers=[("onceward-request-id", request_id.encode())],
                )
            )
        for future in sent:
            future.get(timeout=30)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
