"""`python -m tests.bench.durability`: what acks and min.insync.replicas give, and what they cost.

Three brokers, a topic of three replicas for each row, nothing lingers. First, undisturbed and in
rounds, one sender for the time of a send and eight for their number a second. Then, with eight
sending, one of two things happens to the brokers, and what became of each send is counted beside
what the topic holds afterwards:

- `leader killed`: SIGKILL for the leader; the other two go on.
- `leader killed, followers behind`: before it both followers stand still for a moment, as in a long
  pause of the machine, so that they lack what the leader has.

A send is acknowledged (of those some may be lost), refused (certainly not sent), or unknown.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path

from kafka.admin import KafkaAdminClient, NewTopic

from feedback.clock import monotonic_s
from feedback.kafka.durability import Acks, Durability
from feedback.kafka.kafka_python.sender import KafkaPythonSender
from feedback.kafka.send_errors import RecordNotSent, RecordUnknown
from feedback.settings.settings import KafkaSection
from tests.bench.launching import ROOT
from tests.bench.measure.cost import Reading, cost
from tests.bench.measure.figures import percentile
from tests.bench.measure.processes import own_cpu_s, tree_cpu_s
from tests.bench.rows import write_json
from tests.eventually import eventually
from tests.left_open import left_open
from tests.producer_client.records import records_of
from tests.stack.cluster import Cluster, cluster

OUTPUT = ROOT / "build" / "bench" / "durability.json"
COMBINATIONS: tuple[tuple[Acks, int], ...] = (
    (0, 1), (1, 1), (1, 2), ("all", 1), ("all", 2), ("all", 3),
)  # fmt: skip
KILLED, BEHIND = "leader killed", "leader killed, followers behind"
VALUE = b"v" * 1024
SENDERS = 8
SEND_TIMEOUT_S = 3.0
ROUNDS = 2
ALONE_S = 3.0
TOGETHER_S = 3.0
BEFORE_S = 1.0
BEHIND_S = 1.5
AFTER_S = 6.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one combination costs while nothing happens.

    Attributes:
        other_cpu_percent: what others took of the machine meanwhile.
    """

    p50_ms: float
    p99_ms: float
    sends_per_s: float
    other_cpu_percent: float


@dataclass(frozen=True, slots=True)
class Row:
    """One combination: its costs, the median of the rounds, and what one event did to its sends.

    Attributes:
        lost: of the acknowledged: those that the topic does not hold afterwards.
    """

    acks: Acks
    min_insync: int
    p50_ms: float
    p99_ms: float
    sends_per_s: float
    other_cpu_percent: float
    event: str
    acknowledged: int
    lost: int
    refused: int
    unknown: int


@dataclass(slots=True)
class Sent:
    """What became of sends so far: ids of the acknowledged, numbers of the others."""

    acknowledged: list[bytes] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)


def main(arguments: Sequence[str]) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.durability", description=__doc__)
    parser.add_argument("--only", help="as all-2,1-1; default: all combinations")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="default: build/bench/…")
    asked = parser.parse_args(arguments)
    chosen = set(asked.only.split(",")) if asked.only else None
    combinations = [one for one in COMBINATIONS if chosen is None or f"{one[0]}-{one[1]}" in chosen]
    rows: list[Row] = []
    with left_open(), cluster() as three:
        costs: dict[tuple[Acks, int], list[Cost]] = {one: [] for one in combinations}
        for _ in range(ROUNDS):
            for one in combinations:
                costs[one].append(_cost_of(three, *one))
                print(*one, costs[one][-1], flush=True)
        for one in combinations:
            for event in (KILLED, BEHIND):
                rows.append(_row(three, one, costs[one], event))
                write_json(asked.output, [asdict(row) for row in rows])
                print(rows[-1], flush=True)
    print(table(rows))
    return 0


def _cost_of(three: Cluster, acks: Acks, min_insync: int) -> Cost:
    topic = _topic(three, min_insync)
    with ExitStack() as opened:
        send = _sender(three, acks, opened)
        send(topic, b"the first connects")
        before = _reading(three)
        alone = _sending(send, topic, senders=1, during=lambda: time.sleep(ALONE_S))
        began_s = monotonic_s()
        together = _sending(send, topic, senders=SENDERS, during=lambda: time.sleep(TOGETHER_S))
        per_s = len(together.acknowledged) / (monotonic_s() - began_s)
        others = cost(before, _reading(three)).other_cpu_percent
    seconds = alone.seconds
    return Cost(percentile(seconds, 50) * 1000, percentile(seconds, 99) * 1000, per_s, others)


def _row(three: Cluster, one: tuple[Acks, int], costs: Sequence[Cost], event: str) -> Row:
    sent, lost = _disturbed(three, *one, event)

    def median(name: str) -> float:
        return float(statistics.median(getattr(one, name) for one in costs))

    return Row(
        *one,
        p50_ms=median("p50_ms"),
        p99_ms=median("p99_ms"),
        sends_per_s=median("sends_per_s"),
        other_cpu_percent=median("other_cpu_percent"),
        event=event,
        acknowledged=len(sent.acknowledged),
        lost=lost,
        refused=sent.others["refused"],
        unknown=sent.others["unknown"],
    )


def _disturbed(three: Cluster, acks: Acks, min_insync: int, event: str) -> tuple[Sent, int]:
    topic = _topic(three, min_insync)
    with ExitStack() as opened:
        send = _sender(three, acks, opened)
        send(topic, b"the first connects")
        leader = three.leader(topic)
        others = [one for one in three.brokers.values() if one is not leader]

        def happening() -> None:
            time.sleep(BEFORE_S)
            with ExitStack() as stand_still:
                if event == BEHIND:
                    for one in others:
                        stand_still.enter_context(one.paused())
                    time.sleep(BEHIND_S)
                leader.kill()
            time.sleep(AFTER_S)

        sent = _sending(send, topic, senders=SENDERS, during=happening)
    leader.start()
    three.await_complete()
    eventually(lambda: _is_whole(three, topic), timeout_s=60, interval_s=0.5, what="3 in sync")
    there = {record.key for record in records_of(three.address, topic)}
    return sent, sum(one not in there for one in sent.acknowledged)


def _sending(
    send: Callable[[str, bytes], str], topic: str, *, senders: int, during: Callable[[], None]
) -> Sent:
    """Return what became of the sends of some threads while something happens."""
    sent = Sent()
    is_over = threading.Event()
    lock = threading.Lock()

    def run() -> None:
        while not is_over.is_set():
            key = uuid.uuid4().hex.encode()
            began_s = monotonic_s()
            became = send(topic, key)
            took_s = monotonic_s() - began_s
            with lock:
                if became == "acknowledged":
                    sent.acknowledged.append(key)
                    sent.seconds.append(took_s)
                else:
                    sent.others[became] += 1

    threads = [threading.Thread(target=run) for _ in range(senders)]
    for one in threads:
        one.start()
    during()
    is_over.set()
    for one in threads:
        one.join()
    return sent


def _sender(three: Cluster, acks: Acks, opened: ExitStack) -> Callable[[str, bytes], str]:
    durability = Durability(acks=acks, is_idempotent=acks == "all")
    sender = KafkaPythonSender(
        KafkaSection(bootstrap_servers=three.address),
        send_timeout_s=SEND_TIMEOUT_S,
        max_request_bytes=1_000_000,
        durability=durability,
    )
    opened.callback(sender.close)

    def send(topic: str, key: bytes) -> str:
        try:
            sender.send(topic, key=key, value=VALUE, headers=[]).result()
        except RecordNotSent:
            return "refused"
        except RecordUnknown:
            return "unknown"
        return "acknowledged"

    return send


def _topic(three: Cluster, min_insync: int) -> str:
    name = f"durability-{uuid.uuid4().hex}"
    configs = {"min.insync.replicas": str(min_insync)}
    with KafkaAdminClient(bootstrap_servers=three.address) as admin:
        admin.create_topics([NewTopic(name, 1, 3, topic_configs=configs)])
        admin.wait_for_topics([name])
    return name


def _is_whole(three: Cluster, topic: str) -> bool:
    with KafkaAdminClient(bootstrap_servers=three.address) as admin:
        (found,) = admin.describe_topics([topic])
    return all(len(one["isr_nodes"]) == 3 for one in found["partitions"])


def _reading(three: Cluster) -> Reading:
    pids = [one.pid for one in three.brokers.values()]
    parts = {str(pid): (lambda pid=pid: tree_cpu_s(pid)) for pid in pids}
    return Reading.take(parts, {"bench": lambda: own_cpu_s(os.getpid())})


def table(rows: Sequence[Row]) -> str:
    """Return the rows as Markdown."""
    lines = [
        "| acks | min.insync | p50 / p99 ms | sends/s | event | acknowledged | lost | refused "
        "| unknown |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row.acks} | {row.min_insync} | {row.p50_ms:.1f} / {row.p99_ms:.1f} | "
            f"{row.sends_per_s:,.0f} | {row.event} | {row.acknowledged:,} | "
            f"{row.lost:,} | {row.refused:,} | {row.unknown:,} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
