"""A day of one group on real servers, and its audit as often as a test likes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from pyspark.sql import SparkSession

from feedback.errors import ExitCode
from feedback.records.envelope import REQUEST_ID, payload_sha256
from feedback.settings.settings import Settings
from spark_audit.judge.day_verdict import parse_fail_on
from spark_audit.output.paths import DayPaths
from spark_audit.output.run_lock import alone
from spark_audit.run.audit import AuditResult, audit_with
from spark_audit.stage.snapshot import Snapshot
from spark_audit.stage.window import Window
from tests import offsets
from tests.spark_audit.stage.journal import HandWritten
from tests.spark_audit.stage.samples import BEGIN_MS, DATE, DAY_MS
from tests.stack import Servers

IDS = [f"r-{number}" for number in range(12)]
LOST = "r-3"
NOON_MS = BEGIN_MS + DAY_MS // 2
HOUR_MS = 3_600_000
WINDOW = Window(DATE, BEGIN_MS, BEGIN_MS + DAY_MS)


@dataclass(frozen=True, slots=True)
class Scene:
    """Twelve requests, all delivered, of which the journal lacks one.

    Args:
        output: `[audit] output`.
    """

    spark: SparkSession
    servers: Servers
    topic: str
    journal: HandWritten
    output: Path

    def settings(self, *, journal_url: str = "", topics: tuple[str, ...] = ()) -> Settings:
        """Return the audit's settings."""
        return Settings.model_validate(
            {
                "kafka": {"bootstrap_servers": self.servers.kafka, "group": self.journal.group},
                "redis": {"url": self.servers.redis},
                "journal": {"url": journal_url or self.journal.url},
                "audit": {"topics": topics or (self.topic,), "output": str(self.output)},
            }
        )

    def send(self) -> None:
        """Send the requests in the middle of the day, and commit as a worker does."""
        producer = KafkaProducer(bootstrap_servers=self.servers.kafka)
        for request_id in IDS:
            producer.send(
                self.topic,
                b"{}",
                headers=[(REQUEST_ID, request_id.encode())],
                partition=0,
                timestamp_ms=NOON_MS,
            )
        producer.close()
        self.commit(self.topic, len(IDS))

    def commit(self, topic: str, offset: int, *, partition: int = 0) -> None:
        """Commit an offset of a partition for the group."""
        with KafkaAdminClient(bootstrap_servers=self.servers.kafka) as admin:
            offsets.commit(admin, self.journal.group, TopicPartition(topic, partition), offset)

    def fill_journal(self) -> None:
        """Write a row for each request but one."""
        facts = {"payload_sha256": payload_sha256(None, b"{}"), "deadline_at": NOON_MS + HOUR_MS}
        for offset, request_id in enumerate(IDS):
            if request_id != LOST:
                self.journal.add_request(request_id, topic=self.topic, offset=offset, **facts)

    def audit(
        self,
        settings: Settings | None = None,
        window: Window = WINDOW,
        *,
        fail_on: str = "lost>0",
        again: bool = False,
    ) -> AuditResult:
        """Run the audit of the day, as the command does in a session of its own."""
        with alone(self.output):
            given = settings or self.settings()
            return audit_with(self.spark, given, window, parse_fail_on(fail_on), again=again)

    def audit_goes_right(self, settings: Settings | None = None) -> AuditResult:
        """Run the audit, and see that it finds what there is to be found, and nothing else."""
        outcome = self.audit(settings)
        assert outcome.exit_code is ExitCode.BAD_ANSWER
        assert outcome.summary["counts"]["requests"] == len(IDS)
        found = outcome.summary["counts"]["findings"]
        assert {name: count for name, count in found.items() if count} == {"lost": 1}
        (file,) = DayPaths(self.output, DATE).findings.glob("kind=*/*.parquet")
        assert [row["request_id"] for row in self.spark.read.parquet(str(file)).collect()] == [LOST]
        assert self.offered() == [LOST]
        assert Snapshot.of(self.output, DATE).is_complete
        assert list(self.leftovers()) == []
        return outcome

    def offered(self) -> list[str]:
        """Return the requests that the day's report offers for sending."""
        text = (DayPaths(self.output, DATE).report / "resend.jsonl").read_text()
        return [json.loads(line)["request_id"] for line in text.splitlines()]

    def leftovers(self) -> Iterator[Path]:
        """Yield the folders that a run should have taken away again."""
        for pattern in (".part-*", ".old-*", ".shared-*"):
            # Not Spark's checksums, whose names begin so as well.
            yield from (one for one in self.output.rglob(pattern) if one.is_dir())

    def has_no_end(self) -> bool:
        """Whether nothing is there that looks finished, and nothing half done lies about."""
        finished = [*self.output.glob("snapshot/date=*"), *self.output.glob("reports/date=*")]
        return not finished and not list(self.leftovers())
