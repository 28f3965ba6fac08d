"""A day made by hand: what Kafka and the journal hold, as the snapshot has it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_audit.judge.judge import judge
from spark_audit.stage.chain import ChainLink, RunReach
from spark_audit.stage.manifest import ForgottenPartition, FrozenPartition, LogEnd, Manifest

RECORDS = """kind string, topic string, partition int, offset long, timestamp_ms long,
    request_id string, attempt long, deadline_at long, payload_sha256 string, is_malformed boolean,
    is_committed boolean, in_window boolean, arrived_by_ms long, reason string,
    original_topic string, original_partition int, original_offset long, reopens long"""
REQUESTS = """request_id string, topic string, partition int, offset long, payload_sha256 string,
    attempt long, generation long, effect_kind string, effect_at long, deadline_at long,
    state string, owner string, claimed_at long, due_at long, finished_at long, code string,
    message string, resend boolean, published_at long, dead_letter_at long, voids int"""
RUNS = """request_id string, generation long, attempt long, owner string, topic string,
    partition int, offset long, claimed_at long, effect_at long, effect_kind string,
    ended_at long, outcome string, by_whom string, allowed_by string"""

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
# 2026-11-20 in UTC.
SINCE = 1_795_132_800_000
UNTIL = SINCE + 24 * HOUR
NOON = SINCE + 12 * HOUR
FROZEN = UNTIL + 15 * MINUTE
GRACE = 10 * MINUTE
DEADLINE = HOUR
TOPIC = "pay"
RETRY_TOPIC = "pay.g.retry.5s"
DLQ_TOPIC = "pay.g.dlq"
WAIT_TOPIC = "pay.g.wait"
OUTCOME_TOPIC = "pay.outcomes"
PRUNED_TOPIC = "pruned"
DEAD_WORKER = "host-1-dead"
LIVING_WORKER = "host-2-living"
LAPSED_WORKER = "host-4-lapsed"
SENT_SINCE = 20_000
FIRST_OFFSET = 3_000_000_000  # beyond 32 bits
# Nobody has sent anything there on this day. It begins with a record that the day before left, at
# so many offsets before the end.
QUIET_TOPIC, LEFT = "quiet", 3

# As rows tell of requests that name no deadline.
ALLOWED = dict.fromkeys((TOPIC, PRUNED_TOPIC), DEADLINE)

PAYLOAD = "a" * 64
OTHER_PAYLOAD = "b" * 64

Facts = dict[str, Any]

# A place that the day before has judged, behind that record.
BEHIND: Facts = {"topic": QUIET_TOPIC, "offset": FIRST_OFFSET - 1}


@dataclass
class Day:
    """Collects what was sent and what the journal says; `frames` and `manifest` are the outcome.

    Args:
        partitions: of the request topic.
    """

    partitions: int = 2
    records: list[Facts] = field(default_factory=list)
    requests: list[Facts] = field(default_factory=list)
    runs: list[Facts] = field(default_factory=list)
    carried: tuple[str, ...] = ()
    forgotten: tuple[ForgottenPartition, ...] = ()
    has_dlq: bool = True
    _next: dict[tuple[str, int], int] = field(
        default_factory=lambda: defaultdict(lambda: FIRST_OFFSET)
    )

    def send(self, request_id: str, at: int = NOON, **facts: Any) -> Facts:
        """Add a record of the request topic, delivered unless told otherwise; return it."""
        return self._add("request", TOPIC, request_id, at, facts)

    def send_retry(self, request_id: str, at: int = NOON, **facts: Any) -> Facts:
        """Add a record of the retry topic; return it."""
        return self._add("retry", RETRY_TOPIC, request_id, at, facts)

    def bury(self, record: Facts, at: int = NOON + MINUTE, **facts: Any) -> Facts:
        """Add a dead letter of a record; return it."""
        origin = {f"original_{name}": record[name] for name in ("topic", "partition", "offset")}
        given = {"reason": "REJECTED", "partition": 0} | origin | facts
        return self._add("dlq", DLQ_TOPIC, record["request_id"], at, given)

    def pass_on(self, record: Facts, at: int = NOON + MINUTE) -> Facts:
        """Add the outcome of a record, on a topic that the group does not read; return it."""
        return self._add("outcome", OUTCOME_TOPIC, record["request_id"], at, {})

    def end_wait(self, record: Facts, at: int = NOON + MINUTE) -> Facts:
        """Add the tombstone of a record's wait record; return it."""
        return self._add("tombstone", WAIT_TOPIC, record["request_id"], at, {})

    def journal(self, record: Facts, state: str = "SUCCEEDED", **facts: Any) -> Facts:
        """Add the journal's row of a record; return it."""
        claimed_at = record["timestamp_ms"] + SECOND
        is_final = state not in ("CLAIMED", "RETRYING")
        row = {
            **{name: record[name] for name in ("request_id", "topic", "partition", "offset")},
            "payload_sha256": record["payload_sha256"],
            "attempt": record["attempt"],
            "generation": 1,
            "effect_kind": "external",
            "effect_at": claimed_at,
            "deadline_at": record["deadline_at"] or record["timestamp_ms"] + DEADLINE,
            "state": state,
            "owner": LIVING_WORKER,
            "claimed_at": claimed_at,
            "due_at": None,
            "finished_at": claimed_at + SECOND if is_final else None,
            "code": None,
            "message": None,
            "resend": False,
            "published_at": None,
            "dead_letter_at": None,
            "voids": 0,
        } | facts
        self.requests.append(row)
        return row

    def refuse(self, record: Facts, code: str, **facts: Any) -> Facts:
        """Add the row that a refused record leaves under its coordinates; return it."""
        given = {
            "request_id": coordinates_id(record),
            "code": code,
            "claimed_at": None,
            "effect_at": None,
            "effect_kind": None,
        }
        return self.journal(record, "FAILED", **given | facts)

    def ran(self, row: Facts, outcome: str, generation: int = 1, **facts: Any) -> Facts:
        """Add a run of a request to the history; return it."""
        copied = ("request_id", "attempt", "owner", "topic", "partition", "offset", "claimed_at")
        run = {
            **{name: row[name] for name in copied},
            "generation": generation,
            "effect_at": row["claimed_at"],
            "effect_kind": row["effect_kind"],
            "ended_at": row["finished_at"] or row["claimed_at"],
            "outcome": outcome,
            "by_whom": LIVING_WORKER,
            "allowed_by": None,
        } | facts
        self.runs.append(run)
        return run

    @property
    def manifest(self) -> Manifest:
        """The limits: each partition from its first record to its last."""
        places = [("request", TOPIC, number) for number in range(self.partitions)]
        places += [("request", QUIET_TOPIC, 0), ("retry", RETRY_TOPIC, 0)]
        places += [("request", PRUNED_TOPIC, number) for number in (0, 1)]
        if self.has_dlq:
            places.append(("dlq", DLQ_TOPIC, 0))
        return Manifest(
            date="2026-11-20",
            since_ms=SINCE,
            until_ms=UNTIL,
            frozen_at_ms=FROZEN,
            journal_read_at_ms=FROZEN + GRACE,
            group="g",
            grace_ms=GRACE,
            deadline_s=DEADLINE / 1000,
            partitions=tuple(self._partition(*place) for place in places),
            links=tuple(self._link(topic, number) for _, topic, number in places),
            # One lease was over just as long ago as the grace lasts.
            workers={LIVING_WORKER: FROZEN + GRACE, DEAD_WORKER: NOON, LAPSED_WORKER: FROZEN},
            carried=self.carried,
            lettered=(TOPIC, QUIET_TOPIC) if self.has_dlq else (),
            forgotten=self.forgotten,
            reran_since_ms=SINCE,
            # What came after the freeze.
            log_ends=tuple(
                LogEnd(topic, number, self._next[topic, number] + SENT_SINCE)
                for kind, topic, number in places
                if kind != "dlq"
            ),
        )

    def frames(self, spark: SparkSession) -> tuple[DataFrame, DataFrame, DataFrame]:
        """Return records, requests and runs."""
        return (
            _frame(spark, self.records, RECORDS),
            _frame(spark, self.requests, REQUESTS),
            _frame(spark, self.runs, RUNS),
        )

    def judged(self, spark: SparkSession) -> dict[str, Facts]:
        """Return each judged request by its id."""
        rows = judge(spark, *self.frames(spark), self.manifest, ALLOWED).collect()
        judged = {row["request_id"]: row.asDict() for row in rows}
        assert len(judged) == len(rows), "a request was judged twice"
        return judged

    def write(self, spark: SparkSession, folder: Path) -> None:
        """Write the three as Parquet, each in a folder of its name."""
        for name, frame in zip(("records", "requests", "runs"), self.frames(spark), strict=True):
            frame.write.parquet(str(folder / name))

    def _add(self, kind: str, topic: str, request_id: str, at: int, facts: Facts) -> Facts:
        topic = facts.get("topic", topic)
        place = (topic, facts.get("partition", 0))
        record: Facts = {
            "kind": kind,
            "topic": topic,
            "partition": 0,
            "offset": self._next[place],
            "timestamp_ms": at,
            "request_id": request_id,
            "attempt": 1,
            "deadline_at": None,
            "payload_sha256": PAYLOAD,
            "is_malformed": False,
            "is_committed": True,
            "in_window": SINCE <= at < UNTIL,
            "arrived_by_ms": FROZEN,
            "reason": None,
            "original_topic": None,
            "original_partition": None,
            "original_offset": None,
            "reopens": None,
        }
        record |= facts
        self._next[place] = max(self._next[place], record["offset"]) + 1
        if request_id == "":
            record["request_id"] = coordinates_id(record)
        self.records.append(record)
        return record

    def _partition(self, kind: str, topic: str, number: int) -> FrozenPartition:
        end = self._next[topic, number]
        begin = FIRST_OFFSET - LEFT if topic == QUIET_TOPIC else FIRST_OFFSET
        return FrozenPartition(kind, topic, number, begin, FIRST_OFFSET, end, end)

    def _link(self, topic: str, number: int) -> ChainLink:
        end = self._next[topic, number]
        own = RunReach(2, "2026-11-20", FIRST_OFFSET, end, UNTIL, FROZEN, FIRST_OFFSET)
        if topic != QUIET_TOPIC:
            return ChainLink(topic, number, "", FIRST_OFFSET, (own,))
        # The day before left a record to this one, and has judged those behind it.
        first = FIRST_OFFSET - LEFT
        before = RunReach(1, "2026-11-19", first, FIRST_OFFSET, SINCE, SINCE + GRACE, first)
        return ChainLink(topic, number, "", first, (before, replace(own, first=first)))


def coordinates_id(record: Facts) -> str:
    """Return the id that a record's place gives it."""
    names = ("topic", "partition", "offset", "timestamp_ms")
    return "-".join(str(record[name]) for name in names)


def missing(day: Day, request_id: str, *, partition: int = 0) -> Facts:
    """Return a record that Kafka gave an offset to and does not have."""
    record = day.send(request_id, partition=partition)
    day.records.remove(record)
    return record


def without_dlq(day: Day) -> Day:
    """Return the same day of a group that has no dead letter topic."""
    return replace(day, has_dlq=False)


def _frame(spark: SparkSession, rows: list[Facts], schema: str) -> DataFrame:
    # By position: Spark would sort the names of a dict.
    names = [column.split()[0] for column in schema.split(",")]
    return spark.createDataFrame([tuple(row[name] for name in names) for row in rows], schema)
