"""Staging measured: records with headers in a real broker, read again and again into Parquet.

`python -m tests.bench.audit.staging BROKERS RECORDS ROUNDS FOLDER` is the process that is measured:
one session of Spark fills the topic by its own Kafka writer, and reads it `ROUNDS` times and once
before, to be warm. It prints one line of JSON.
"""

from __future__ import annotations

import json
import shutil
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from kafka.admin import KafkaAdminClient, NewTopic
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from feedback.clock import epoch_ms, monotonic_s
from feedback.settings.settings import AuditSection, KafkaSection, Settings
from spark_audit.spark import open_session
from spark_audit.stage.freeze import freeze
from spark_audit.stage.stage_records import stage_records
from spark_audit.stage.window import Window
from tests.bench.audit import generated
from tests.spark_audit.jars import audit_jars

PARTITIONS = 8
VALUE = '{"card": "4711000000004242", "amount": 1999, "terminal": "'


@dataclass(frozen=True, slots=True)
class Staged:
    """Seconds of reading: the first time in the session, and each time after."""

    cold_s: float
    warm_s: Sequence[float]


def stage(brokers: str, records: int, rounds: int, folder: Path) -> Staged:
    """Fill a topic, read it several times, and take it away."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = KafkaAdminClient(bootstrap_servers=brokers)
    admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)])
    spark = open_session(jars=audit_jars())
    try:
        began_ms = epoch_ms()
        _fill(spark, brokers, topic, records)
        settings = Settings(
            kafka=KafkaSection(bootstrap_servers=brokers, group="bench"),
            audit=AuditSection(topics=(topic,)),
        )
        now_ms = epoch_ms() + 1
        limits = freeze(settings, Window(generated.DATE, began_ms, now_ms), now_ms=now_ms)
        seconds = []
        for number in range(rounds + 1):
            target = folder / f"staged-{number}"
            began_s = monotonic_s()
            stage_records(spark, settings.kafka, limits, target)
            seconds.append(monotonic_s() - began_s)
            found = spark.read.parquet(str(target)).where("request_id LIKE 'id-%'").count()
            assert found == records, f"{found} of {records} records were staged"
            shutil.rmtree(target)
        return Staged(seconds[0], seconds[1:])
    finally:
        spark.stop()
        admin.delete_topics([topic])
        admin.close()


def _fill(spark: SparkSession, brokers: str, topic: str, records: int) -> None:
    number = F.col("id").cast("string")
    headers = {
        "onceward-request-id": F.concat(F.lit("id-"), F.sha2(number, 224)),
        "onceward-attempt": F.lit("1"),
        "onceward-deadline": F.lit(str(epoch_ms() + 3_600_000)),
    }
    value = F.concat(F.lit(VALUE), F.md5(number), F.lit('"}'))
    spark.range(records, numPartitions=PARTITIONS).select(
        F.md5(number).alias("key"),
        value.alias("value"),
        F.array(
            *(
                F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))
                for name, text in headers.items()
            )
        ).alias("headers"),
    ).write.format("kafka").options(
        **{"kafka.bootstrap.servers": brokers, "topic": topic, "includeHeaders": "true"}
    ).save()


if __name__ == "__main__":
    took = stage(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
    print(json.dumps({"cold_s": took.cold_s, "warm_s": took.warm_s}))
