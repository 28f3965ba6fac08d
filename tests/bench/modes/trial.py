"""One measurement: topic, counterparty and worker anew, the load, and what came of it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from sqlalchemy import NullPool, create_engine, text

from onceward.servers.errors import tail
from tests.bench.errors import BenchError
from tests.bench.launching import running
from tests.bench.measure.cost import Meters, Reading, cost
from tests.bench.measure.processes import below_cpu_s, own_cpu_s
from tests.bench.modes import workload
from tests.bench.modes.calls import Call, Counterparty, counterparty
from tests.bench.modes.found import Found
from tests.bench.modes.handlers import COUNTERPARTY_VARIABLE, MODE_VARIABLE
from tests.bench.modes.plan import PROCESSES, Case, Plan
from tests.bench.modes.steady import TooShort, steady
from tests.bench.systems import onceward
from tests.bench.systems.trial import server_meters
from tests.eventually import eventually
from tests.stack import Servers

HANDLERS = "tests.bench.modes.handlers"
FIRST_WITHIN_S = 60.0
DRAIN_S = 2.0

_NOT_WELL = text(
    "SELECT state, count(*) FROM onceward_request "
    "WHERE state NOT IN ('CLAIMED', 'SUCCEEDED') GROUP BY state"
)

Say = Callable[[str], None]


def settings_text(plan: Plan) -> str:
    """Return the settings that are measured, for people."""
    prefetch = f"N / {PROCESSES}" if plan.prefetch is None else plan.prefetch
    return (
        f"{PROCESSES} processes x N / {PROCESSES} slots, prefetch {prefetch}, buffer 4 x N, "
        f"1 partition, {plan.journal}; effect external, in doubt: parked at most once, else run "
        "again with the same key; a plain function with http.client"
    )


def measure(
    case: Case, servers: Servers, *, journal: str, number: int, folder: Path, say: Say
) -> Found:
    """Measure one case.

    Args:
        journal: `sqlite` or `postgres`.
        number: of the round; another round has other operations.
        folder: where the journal and the logs lie meanwhile.
        say: told what is being done.

    Raises:
        BenchError: it could not be measured, or what was measured is void; ends with the worker's
            last lines.
    """
    with tempfile.TemporaryDirectory(prefix="mode-", dir=folder) as name, ExitStack() as opened:
        trial = Path(name)
        topic = opened.enter_context(onceward.fresh_topic(servers.kafka, partitions=1))
        url = opened.enter_context(onceward.fresh_journal(servers, journal, trial))
        say(f"{case}: {case.records:,} records go into the topic")
        delays = case.arm.delays
        workload.fill(servers.kafka, topic, case.records, cycle=delays.cycle, seed=number)
        asked = opened.enter_context(counterparty(delays, log=trial / "counterparty.log"))
        environ = _environment(case, servers, url, topic=topic, address=asked.address)
        onceward.migrate(environ, trial)
        log = trial / "worker.log"
        worker = opened.enter_context(running(onceward.WORKER, environ=environ, log=log))
        try:
            _await_first(worker, asked)
            say(f"{case}: {case.load_s:g} s of load")
            meters = _meters(worker, asked, servers)
            before = Reading.take(meters, {"bench": partial(own_cpu_s, os.getpid())})
            _let_run(worker, case.load_s)
            after = Reading.take(meters, {"bench": partial(own_cpu_s, os.getpid())})
            calls = asked.calls()
            _require_well(calls, case, url)
            return Found(case, number, steady(calls, delays, case.n), cost(before, after), calls)
        except (BenchError, TimeoutError, TooShort) as error:
            raise BenchError(f"{case}: {error}\n{tail(log)}") from error


def _environment(
    case: Case, servers: Servers, url: str, *, topic: str, address: str
) -> Mapping[str, str]:
    return {
        **onceward.environment(servers, url, topic=topic, handlers=HANDLERS),
        "ONCEWARD_WORKER__PROCESSES": str(PROCESSES),
        "ONCEWARD_WORKER__SLOTS_PER_PROCESS": str(case.slots_per_process),
        "ONCEWARD_WORKER__BUFFER_LIMIT": str(4 * case.n),
        "ONCEWARD_WORKER__DRAIN_TIMEOUT_S": str(DRAIN_S),
        "ONCEWARD_WORKER__PREFETCH": str(case.prefetch),
        MODE_VARIABLE: case.mode,
        COUNTERPARTY_VARIABLE: address,
    }


def _await_first(worker: subprocess.Popen[bytes], asked: Counterparty) -> None:
    def answered() -> bool:
        if worker.poll() is not None:
            raise BenchError("the worker ended before the first call")
        return asked.answered() > 0

    eventually(answered, timeout_s=FIRST_WITHIN_S, interval_s=0.1, what="the first call")


def _let_run(worker: subprocess.Popen[bytes], load_s: float) -> None:
    try:
        code = worker.wait(load_s)
    except subprocess.TimeoutExpired:
        return
    raise BenchError(f"the worker ended with {code} under load")


def _meters(worker: subprocess.Popen[bytes], asked: Counterparty, servers: Servers) -> Meters:
    return {
        "worker": partial(own_cpu_s, worker.pid),
        "children": partial(below_cpu_s, worker.pid),
        "counterparty": partial(own_cpu_s, asked.pid),
        **server_meters(servers),
    }


def _require_well(calls: list[Call], case: Case, journal_url: str) -> None:
    if len(calls) + 5 * case.n > case.records:
        raise BenchError(f"the topic ran dry: {len(calls)} of its {case.records} records are done")
    often = Counter(call.operation_id for call in calls)
    repeated = sum(times > 1 for times in often.values())
    if repeated:
        raise BenchError(f"{repeated} operations were called more than once")
    engine = create_engine(journal_url, poolclass=NullPool)
    with engine.connect() as connection:
        if states := [f"{state}: {count}" for state, count in connection.execute(_NOT_WELL)]:
            raise BenchError(f"not all requests succeeded: {', '.join(states)}")
