"""The faults of kafka-python that its engine mends, each with the versions that have it.

A mend replaces functions of the library, or leans on how they are written. Where one of them
changes, a test turns red: then its fault is looked for again, and the mend goes or is renewed.
"""

from __future__ import annotations

from typing import NamedTuple

# What setup.cfg installs.
VERSIONS = ">=3.0.12,<3.1"


class Mend(NamedTuple):
    """A mended fault.

    Attributes:
        module: of `feedback.kafka.kafka_python`.
        fault: of the library.
        functions: of the library: those replaced, and those that have the fault.
        versions: that have it.
    """

    module: str
    fault: str
    functions: tuple[str, ...]
    versions: str = VERSIONS


MENDS = (
    Mend(
        "fetching",
        "the records of the second of two paused partitions are never handed out again",
        ("kafka.consumer.fetcher:Fetcher.fetched_records",),
    ),
    Mend(
        "fetching",
        "the poll after one that found a corrupt batch never ends; some errors name no partition",
        (
            "kafka.consumer.fetcher:Fetcher.fetched_records",
            "kafka.consumer.fetcher:Fetcher._append",
            "kafka.consumer.fetcher:Fetcher._parse_fetched_data",
            "kafka.consumer.fetcher:PartitionRecords.take",
            "kafka.consumer.fetcher:PartitionRecords._unpack_records",
        ),
    ),
    Mend(
        "membership",
        "a poll with an overdue heartbeat fetches without a pause",
        ("kafka.coordinator.consumer:ConsumerCoordinator.time_to_next_poll",),
    ),
    Mend(
        "membership",
        "a join that an earlier poll began is forgotten, or made anew",
        (
            "kafka.coordinator.consumer:ConsumerCoordinator.need_rejoin",
            "kafka.coordinator.base:BaseCoordinator.join_group_async",
        ),
    ),
    Mend(
        "records",
        "a header whose name is not UTF-8 makes its record corrupt",
        ("kafka.record.default_records:DefaultRecordBatch._read_msg",),
    ),
    Mend(
        "records",
        "a producer takes no header that is null",
        ("kafka.record.default_records:DefaultRecordBatchBuilder.append",),
    ),
    Mend(
        "sockets",
        "the sockets of failed connections stay open",
        (
            "kafka.net.inet:KafkaNetSocket.sock_connect",
            "kafka.net.transport:KafkaSSLTransport.__init__",
            "kafka.net.transport:KafkaTCPTransport._write_to_sock",
        ),
    ),
    Mend(
        "sockets",
        "a lookup blocks the loop, and a TLS handshake has no end",
        (
            "kafka.net.inet:KafkaNetSocket.dns_lookup",
            "kafka.net.transport:KafkaSSLTransport.handshake",
        ),
    ),
    Mend(
        "logins",
        "a password is taken once, when a client is made",
        ("kafka.net.connection:KafkaConnection._sasl_authenticate",),
    ),
    Mend(
        "failures",
        "the reason of a failed connection is only logged, and the last words of a broker dropped",
        (
            "kafka.net.connection:KafkaConnection.connection_lost",
            "kafka.net.manager:KafkaConnectionManager._do_bootstrap",
            "kafka.net.transport:KafkaSSLTransport._build_ssl_context",
            "kafka.net.transport:KafkaTCPTransport._sock_recv",
            "kafka.net.transport:KafkaSSLTransport._sock_recv",
        ),
    ),
    Mend(
        "failures",
        "a login that is refused is tried again at once",
        ("kafka.net.manager:KafkaConnectionManager._connect",),
    ),
    Mend(
        "retries",
        "a retry that is refused hides an earlier try that may have been stored",
        ("kafka.producer.producer_batch:ProducerBatch.complete_exceptionally",),
    ),
    Mend(
        "logs",
        "payloads and passwords are logged at DEBUG",
        ("kafka.net.connection:KafkaConnection._send_request",),
    ),
    Mend(
        "tagged_fields",
        "without assertions (PYTHONOPTIMIZE) it leaves a byte of most answers unread",
        ("kafka.protocol.schemas.fields.codecs.tagged_fields:TaggedFields.decode_empty",),
    ),
)
