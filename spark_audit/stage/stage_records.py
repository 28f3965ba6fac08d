"""Kafka's records of the frozen ranges as Parquet, read once, by Spark's own reader."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from feedback.errors import NotAvailable, SecurityKind, SettingsError
from feedback.security import KAFKA, fault
from feedback.settings.settings import KafkaSection
from spark_audit.output.location import Location, uri_of
from spark_audit.spark import explained, frame_of
from spark_audit.stage.chain_columns import with_chain
from spark_audit.stage.manifest import FrozenPartition, Manifest, TopicKind
from spark_audit.stage.record_columns import (
    OUTCOME_ID,
    REQUEST_ID,
    RecordHeaders,
    header_columns,
    if_request_id,
    naming_unreadable_times,
    payload_sha256,
    with_envelope,
)

SCHEMA = (
    "kind string, topic string, partition int, offset long, timestamp_ms long, request_id string, "
    "attempt long, deadline_at long, payload_sha256 string, is_malformed boolean, "
    "is_committed boolean, in_window boolean, arrived_by_ms long, reason string, "
    "original_topic string, original_partition int, original_offset long, reopens long"
)

# How long a broker may take to answer a question that is asked again meanwhile.
ANSWER_LIMIT_MS = 30_000

# Of one partition at once, for each core.
FETCH_BYTES = 16 << 20

# Of kafka-python's settings, those that Spark's client takes under another name as they are.
_SAME = MappingProxyType(
    {"security_protocol": "security.protocol", "sasl_mechanism": "sasl.mechanism"}
)
# Whose text is read here and given on: the files need not be on every machine of a cluster.
_FILES = MappingProxyType(
    {
        "ssl_cafile": "ssl.truststore.certificates",
        "ssl_certfile": "ssl.keystore.certificate.chain",
        "ssl_keyfile": "ssl.keystore.key",
    }
)
_LOGIN = MappingProxyType(
    {
        "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
        "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
        "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
    }
)
# No two records share these: Parquet would begin a dictionary of them and throw it away, which
# costs a fifth of all.
_PLAIN = MappingProxyType(
    {
        "parquet.enable.dictionary#request_id": "false",
        "parquet.enable.dictionary#payload_sha256": "false",
    }
)
_NOT_FOR_SPARK = ("ssl_crlfile", "ssl_ciphers", "sasl_kerberos_name", "sasl_kerberos_domain_name")


def stage_records(
    spark: SparkSession, settings: KafkaSection, manifest: Manifest, folder: Location
) -> None:
    """Write all records of the frozen ranges.

    Args:
        folder: a new folder of Parquet files, with the columns of `SCHEMA`.

    Raises:
        SettingsError: a setting of `[kafka]` that Spark's Kafka client does not know.
        NotAvailable: Kafka is away, records were lost to retention meanwhile, or the disk is full.
    """
    options = reader_options(settings, _with_strays(manifest))
    told = explained(f"the records cannot be read from Kafka at {settings.bootstrap_servers}")
    with naming_unreadable_times(settings, manifest), told:
        if options is None:
            found = frame_of(spark, [], SCHEMA)
        else:
            options["minPartitions"] = str(spark.sparkContext.defaultParallelism)
            raw = spark.read.format("kafka").options(**options).load()
            found = records_of(raw, limits_of(spark, manifest.partitions), manifest)
        found.write.options(**_PLAIN).parquet(uri_of(folder))


def reader_options(
    settings: KafkaSection, partitions: Iterable[FrozenPartition]
) -> dict[str, str] | None:
    """Return the options of Spark's reader: every partition by explicit offsets.

    None when every range is empty: Spark has no way to say that.
    """
    first: dict[str, dict[str, int]] = defaultdict(dict)
    after: dict[str, dict[str, int]] = defaultdict(dict)
    for one in partitions:
        if one.start < one.end:
            first[one.topic][str(one.partition)] = one.start
            after[one.topic][str(one.partition)] = one.end
    if not first:
        return None
    assigned = {topic: [int(number) for number in given] for topic, given in first.items()}
    return {
        **connection_options(settings),
        "assign": json.dumps(assigned),
        "startingOffsets": json.dumps(first),
        "endingOffsets": json.dumps(after),
        "includeHeaders": "true",
        # Records that retention took between the freeze and now must never pass for "there was
        # nothing".
        "failOnDataLoss": "true",
        "kafka.default.api.timeout.ms": str(ANSWER_LIMIT_MS),
        "kafka.request.timeout.ms": str(ANSWER_LIMIT_MS // 2),
        # A poll's records are objects in the heap of each partition that is read.
        "kafka.max.poll.records": "5000",
        "kafka.max.partition.fetch.bytes": str(FETCH_BYTES),
        # Aborted records do not exist, to a worker and to the audit.
        "kafka.isolation.level": "read_committed",
    }


def connection_options(settings: KafkaSection) -> dict[str, str]:
    """Return brokers and security of `[kafka]` as Spark's Kafka client names them.

    Raises:
        SettingsError: one of them has no counterpart there, or a file cannot be read.
    """
    given = settings.connection()
    if settings.secrets.password is not None:
        given["sasl_plain_password"] = settings.secrets.password.read()
    refused = [name for name in _NOT_FOR_SPARK if given.get(name)]
    if refused:
        raise SettingsError(
            f"[kafka] {', '.join(refused)}: Spark's Kafka client has no such setting; leave it out "
            "in the audit's settings"
        )
    options = {"bootstrap.servers": ",".join(given["bootstrap_servers"])}
    options |= {name: str(given[ours]) for ours, name in _SAME.items() if given.get(ours)}
    options |= _tls(given)
    options |= _sasl(given)
    return {f"kafka.{name}": value for name, value in options.items()}


def limits_of(spark: SparkSession, partitions: Iterable[FrozenPartition]) -> DataFrame:
    """Return kind, start and committed offset of each partition, and whether the group reads its
    topic, small enough for every task."""
    known = list(partitions)
    read = {one.topic for one in known if one.committed is not None}
    rows = [
        (one.topic, one.partition, one.kind, one.start, one.committed, one.topic in read)
        for one in known
    ]
    schema = (
        "topic string, partition int, topic_kind string, start long, committed long, "
        "is_read boolean"
    )
    return F.broadcast(frame_of(spark, rows, schema))


def records_of(raw: DataFrame, limits: DataFrame, manifest: Manifest) -> DataFrame:
    """Return the records as a snapshot has them.

    Args:
        raw: as Spark's Kafka reader gives them, with headers.
        limits: from `limits_of`.
    """
    chained = with_chain(_read(raw).join(limits, ["topic", "partition"]), manifest)
    is_in_window = F.coalesce(F.col("judged_on") == manifest.date, F.lit(False))
    placed = chained.withColumn("in_window", is_in_window)
    # Before its start a partition is read for strays alone.
    wanted = placed.where((F.col("offset") >= F.col("start")) | F.col("in_window"))
    headers = RecordHeaders(F.col("names"), F.col("values"))
    known = wanted.withColumns({**header_columns(headers), **_aside(headers)})
    envelopes = with_envelope(known.drop("names", "values"), manifest.group)
    found = envelopes.withColumn("kind", _kind())
    is_committed = F.coalesce(F.col("offset") < F.col("committed"), F.lit(False))
    columns = {"request_id": _about(), "is_committed": is_committed}
    return found.withColumns(columns).select(*_names(SCHEMA))


def _read(raw: DataFrame) -> DataFrame:
    """Return the columns of the records that are needed: the payload's bytes are copied no further
    than here."""
    return raw.select(
        *("topic", "partition", "offset"),
        F.unix_millis("timestamp").alias("timestamp_ms"),
        F.col("value").isNull().alias("is_empty"),
        payload_sha256(F.col("key"), F.col("value")).alias("payload_sha256"),
        F.col("headers.key").alias("names"),
        F.col("headers.value").alias("values"),
    )


def _with_strays(manifest: Manifest) -> list[FrozenPartition]:
    """Return the partitions from where the day takes something of them."""
    strays = {
        (link.topic, link.partition): reach.strays_from
        for link in manifest.links
        for reach in link.reaches
        if reach.date == manifest.date
    }
    found = []
    for one in manifest.partitions:
        wanted = strays.get((one.topic, one.partition), one.start)
        found.append(replace(one, start=min(one.start, max(wanted, one.begin))))
    return found


def _kind() -> Column:
    """Return the kind of a record. An outcome is a request of its own to a group that reads it."""
    of_topic = F.col("topic_kind")
    is_unread = (of_topic == TopicKind.REQUEST.value) & ~F.col("is_read")
    is_tombstone = F.col("is_empty") & (
        (of_topic == TopicKind.WAIT.value) | (is_unread & ~F.col("is_named"))
    )
    return (
        F.when(is_tombstone, TopicKind.TOMBSTONE.value)
        .when(is_unread & F.col("is_outcome"), TopicKind.OUTCOME.value)
        .otherwise(of_topic)
    )


def _about() -> Column:
    """Return the request that a record is about.

    A dead letter names the one that failed, and has the id of another one when it was sent again to
    be handled; text that is no id names none. An outcome that is no request of its own names the
    one that ended.
    """
    kind, request_id = F.col("kind"), F.col("request_id")
    return (
        F.when(kind == TopicKind.DLQ.value, F.coalesce(F.col("failed_id"), request_id))
        .when(kind == TopicKind.OUTCOME.value, F.coalesce(F.col("ended_id"), request_id))
        .otherwise(request_id)
    )


def _aside(headers: RecordHeaders) -> dict[str, Column]:
    """Return the values of headers that a request's own records do not have: which request it is
    about, why it was set aside, and where it came from; null where a header is not there."""
    number = headers.first_number("ORIGINAL_PARTITION")
    is_aside = F.col("topic_kind") != TopicKind.REQUEST.value
    origin = {
        "failed_id": if_request_id(headers.last_text("DLQ_REQUEST_ID")),
        "reason": headers.last_text("DLQ_REASON"),
        "original_topic": headers.first_text("ORIGINAL_TOPIC"),
        "original_partition": number.try_cast("int"),
        "original_offset": headers.first_number("ORIGINAL_OFFSET"),
    }
    is_outcome = ~is_aside & (headers.position(OUTCOME_ID) > 0)
    return {
        "ended_id": F.when(is_outcome, headers.first_text(REQUEST_ID)),
        **{name: F.when(is_aside, column) for name, column in origin.items()},
    }


def _tls(given: Mapping[str, object]) -> dict[str, str]:
    options = {
        name: _text_of(ours, str(given[ours])) for ours, name in _FILES.items() if given.get(ours)
    }
    if "ssl.truststore.certificates" in options:
        options["ssl.truststore.type"] = "PEM"
    if "ssl.keystore.certificate.chain" in options:
        options["ssl.keystore.type"] = "PEM"
        # One file may hold both: each is found by its own marks.
        options.setdefault("ssl.keystore.key", options["ssl.keystore.certificate.chain"])
    if given.get("ssl_password"):
        options["ssl.key.password"] = str(given["ssl_password"])
    if not given["ssl_check_hostname"]:
        options["ssl.endpoint.identification.algorithm"] = ""
    return options


def _sasl(given: Mapping[str, object]) -> dict[str, str]:
    if not str(given["security_protocol"]).startswith("SASL"):
        return {}
    mechanism = str(given.get("sasl_mechanism"))
    if mechanism not in _LOGIN:
        raise SettingsError(
            f"[kafka] sasl_mechanism = {mechanism}: the audit knows {', '.join(_LOGIN)}"
        )
    user = _quoted(str(given.get("sasl_plain_username", "")))
    password = _quoted(str(given.get("sasl_plain_password", "")))
    login = f"{_LOGIN[mechanism]} required username={user} password={password};"
    return {"sasl.jaas.config": login}


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _text_of(name: str, path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is no text"
        unusable = fault(SecurityKind.FILE, KAFKA, why, more=f"[kafka] {name} = {path}")
        raise NotAvailable(unusable.said).because(unusable) from error


def _names(schema: str) -> list[str]:
    return [one.split()[0] for one in schema.split(", ")]
