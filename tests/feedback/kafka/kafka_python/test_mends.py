"""Each fault that is mended is still there: red when kafka-python is mended, or changed there."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
from importlib.metadata import version
from pathlib import Path

import pytest
from kafka.errors import CorruptRecordError
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from packaging.specifiers import SpecifierSet

from feedback.records.envelope import NULL_HEADER
from tests.feedback.kafka.kafka_python.mends import MENDS, Mend

FOLDER = Path(__file__).parents[4] / "feedback/kafka/kafka_python"
# The functions as they were when their faults were seen; a digest of their text.
SEEN = {
    "kafka.consumer.fetcher:Fetcher.fetched_records": "d4b9ffde4a1d",
    "kafka.consumer.fetcher:Fetcher._append": "2b183ea3f3f1",
    "kafka.consumer.fetcher:Fetcher._parse_fetched_data": "cde60bd4b098",
    "kafka.consumer.fetcher:PartitionRecords.take": "ab3bd340e70d",
    "kafka.consumer.fetcher:PartitionRecords._unpack_records": "ff6ee9ba59fd",
    "kafka.coordinator.consumer:ConsumerCoordinator.time_to_next_poll": "f9d2fe7d0787",
    "kafka.coordinator.consumer:ConsumerCoordinator.need_rejoin": "1afac2f3dabb",
    "kafka.coordinator.base:BaseCoordinator.join_group_async": "6a83f51ec009",
    "kafka.record.default_records:DefaultRecordBatch._read_msg": "da2630049aab",
    "kafka.record.default_records:DefaultRecordBatchBuilder.append": "d10e0f63e026",
    "kafka.net.inet:KafkaNetSocket.sock_connect": "a470e0987d3c",
    "kafka.net.transport:KafkaSSLTransport.__init__": "2cf4e70c91ae",
    "kafka.net.transport:KafkaTCPTransport._write_to_sock": "066020b9c8cf",
    "kafka.net.inet:KafkaNetSocket.dns_lookup": "92bf3951e0d7",
    "kafka.net.transport:KafkaSSLTransport.handshake": "bc06ae0cd026",
    "kafka.net.connection:KafkaConnection._sasl_authenticate": "ece1c9d0b57e",
    "kafka.net.connection:KafkaConnection.connection_lost": "6ff78738bd34",
    "kafka.net.manager:KafkaConnectionManager._do_bootstrap": "52fb3ffee5fc",
    "kafka.net.transport:KafkaSSLTransport._build_ssl_context": "e7f5c0239e4b",
    "kafka.net.transport:KafkaTCPTransport._sock_recv": "c905936f9c81",
    "kafka.net.transport:KafkaSSLTransport._sock_recv": "8d5f72655fe8",
    "kafka.net.manager:KafkaConnectionManager._connect": "62606072090d",
    "kafka.producer.producer_batch:ProducerBatch.complete_exceptionally": "263cb8e2dc48",
    "kafka.net.connection:KafkaConnection._send_request": "d4e7612b5c32",
    "kafka.protocol.schemas.fields.codecs.tagged_fields:TaggedFields.decode_empty": "7cde93a3a8d3",
}


def digest(name: str) -> str:
    """Return a digest of the text of a function, as `module:Class.function`."""
    module, _, function = name.partition(":")
    spec = importlib.util.find_spec(module)
    assert spec is not None and spec.origin is not None, module
    text = Path(spec.origin).read_text("utf-8")
    owner, _, called = function.partition(".")
    (found,) = (
        one
        for kind in ast.walk(ast.parse(text))
        if isinstance(kind, ast.ClassDef) and kind.name == owner
        for one in kind.body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef) and one.name == called
    )
    return hashlib.sha256((ast.get_source_segment(text, found) or "").encode()).hexdigest()[:12]


@pytest.mark.parametrize("mend", MENDS, ids=lambda one: f"{one.module}: {one.fault}"[:60])
def test_what_is_mended_is_as_it_was_when_the_fault_was_seen(mend: Mend) -> None:
    assert version("kafka-python") in SpecifierSet(mend.versions)
    assert (FOLDER / f"{mend.module}.py").is_file()
    changed = [name for name in mend.functions if digest(name) != SEEN[name]]
    assert changed == [], f"look whether it is still so: {mend.fault}"


def test_every_function_is_one_of_a_mend() -> None:
    assert {name for mend in MENDS for name in mend.functions} == SEEN.keys()


def built(headers: list[tuple[str, object]]) -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=10**6,
    )
    builder.append(0, 1_000, b"k", b"v", headers)
    return bytes(builder.build())


def test_kafka_python_itself_cannot_read_a_headers_name_that_is_not_utf8() -> None:
    broken = built([("name", b"1")]).replace(b"name", b"na\xffe")
    with pytest.raises((CorruptRecordError, UnicodeDecodeError)):
        list(DefaultRecordBatch(broken))


def test_kafka_python_itself_writes_our_null_header_as_an_empty_one() -> None:
    (record,) = DefaultRecordBatch(built([("name", NULL_HEADER)]))
    assert [tuple(one) for one in record.headers] == [("name", b"")]
