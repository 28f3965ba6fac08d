"""Dashboards and rules at a real Prometheus: it scrapes a worker, a relay and an audit's file."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4
from sqlalchemy import create_engine

from feedback.status import State
from onceward.servers.ports import HOST, free_port
from producer_client.outbox import migrate
from spark_audit.findings import Finding
from spark_audit.judge.day_verdict import DayVerdict
from spark_audit.say.prometheus_file import write_metrics
from tests.config.monitoring import QUERIES, RULES, filled
from tests.consumer.running import command
from tests.consumer.stage import Stage, open_stage
from tests.eventually import eventually
from tests.kit.databases import migrated
from tests.kit.serving import serving
from tests.kit.settings import environment
from tests.producer_client.resenders import ClientProgram
from tests.stack import Servers
from tests.stack.prometheus import asked, prometheus

pytestmark = pytest.mark.waits

# Doubts are counted every 15 s.
LIMIT_S = 120.0
SCRAPES = ("onceward_slots", "onceward_outbox_waiting", "onceward_audit_requests")


@pytest.mark.timeout(300)
def test_no_query_of_dashboards_and_rules_is_empty_where_all_has_happened(
    servers: Servers, tmp_path: Path
) -> None:
    expressions = re.findall(r"expr: (.+)", RULES.read_text())
    lacking = {filled(one) for one in QUERIES}
    lacking.update(re.findall(r"onceward_\w+(?:\{[^}]*\})?", " ".join(expressions)))
    with watched_scene(servers, tmp_path) as (url, send):

        def nothing_is_lacking() -> bool:
            send()
            lacking.difference_update([one for one in lacking if has_data(url, one)])
            return not lacking

        with suppress(TimeoutError):
            eventually(nothing_is_lacking, timeout_s=LIMIT_S, interval_s=1.0)
        assert lacking == set()
        (group,) = asked(url, "rules")["groups"]
        assert len(group["rules"]) == len(expressions)
        assert {(one["health"], one.get("lastError")) for one in group["rules"]} == {("ok", None)}
        alerts = asked(url, "alerts")["alerts"]
        assert "OncewardAuditBad" in {one["labels"]["alertname"] for one in alerts}


def has_data(url: str, query: str) -> bool:
    """Say whether a query has a number; a quantile of nothing is none."""
    found = asked(url, "query", query=query)["result"]
    return any(one["value"][1] != "NaN" for one in found)


@contextmanager
def watched_scene(servers: Servers, folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield a Prometheus that scrapes everything, and a function that sends one more request."""
    outbox, ports = f"sqlite:///{folder / 'outbox.db'}", [free_port(), free_port()]
    migrated(outbox, migrate)
    with ExitStack() as ends:
        stage = ends.enter_context(
            open_stage(
                servers=servers,
                journal_url=f"sqlite:///{folder / 'journal.db'}",
                folder=folder,
                handlers=("work", "ordered", "other"),
                partitions=1,
                worker={"http_port": ports[0], "processes": 1, "slots_per_process": 2},
                outbox={"http_port": ports[1], "url": outbox, "unknown_topic_s": 1},
            )
        )
        worker = stage.start()
        words = ("relay", f"--config={stage.config()}")
        relay = ClientProgram(environment(), folder, "relay", argv=words)
        ends.callback(relay.kill)
        audit = ends.enter_context(_audit(folder))
        url = ends.enter_context(prometheus(_settings(ports, audit)))
        eventually(lambda: all(has_data(url, one) for one in SCRAPES), timeout_s=LIMIT_S)
        # Before its slots are held: a child that runs nothing leaves no doubt behind.
        os.kill(worker.children()[0], signal.SIGKILL)
        _plant(stage, outbox)
        yield url, partial(_send, stage, {"answer": 1})


def _settings(ports: list[int], audit: int) -> dict[str, Any]:
    jobs = {"payments": ports, "node": [audit]}
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [str(RULES)],
        "scrape_configs": [
            {
                "job_name": job,
                "static_configs": [{"targets": [f"{HOST}:{port}" for port in its_ports]}],
            }
            for job, its_ports in jobs.items()
        ],
    }


@contextmanager
def _audit(folder: Path) -> Iterator[int]:
    """Yield the port of a server that shows the file of an audit with a finding."""
    findings = dict.fromkeys((one.value for one in Finding), 0) | {Finding.LOST.value: 1}
    counts = {"findings": findings, "requests": 9, "pending": 1, "in_flight": 1}
    told = {"group": "payments", "counts": counts, "verdict": DayVerdict.BAD}
    write_metrics(folder / "audit" / "metrics", [told], seconds=1.0, succeeded_at_s=1.0)

    class Files(SimpleHTTPRequestHandler):
        def guess_type(self, path: object) -> str:
            return CONTENT_TYPE_PLAIN_0_0_4

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((HOST, 0), partial(Files, directory=str(folder / "audit")))
    with serving(server):
        yield server.server_port


def _send(stage: Stage, body: dict[str, Any], handler: str = "work", key: bytes = b"k") -> str:
    return stage.client.send(body, topic=stage.topics[handler], key=key).request_id


def _plant(stage: Stage, outbox: str) -> None:
    """Have failures, a doubt, a key queue, a paused topic, and rows that were sent and parked."""
    engine = create_engine(outbox)
    with engine.begin() as connection:
        for topic in (stage.topics["work"], "no-such-topic"):
            stage.client.send({}, topic=topic, connection=connection)
    engine.dispose()
    topic, config = stage.topics["other"], str(stage.config())
    paused = command("pause", topic, "--because", "a migration", "--config", config)
    assert paused.returncode == 0, paused.stderr
    assert stage.final(_send(stage, {"do": "reject"})).state is State.FAILED
    assert stage.final(_send(stage, {"do": "doubt"})).state is State.IN_DOUBT
    gate = stage.gate()
    for _ in range(2):
        _send(stage, {"gate": gate.path}, "ordered")
